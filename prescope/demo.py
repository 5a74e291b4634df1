"""``python -m prescope.demo``: what ``make run`` shows.

The tiny model generates text with its experts in host memory under five scheduling policies. Every copy and
every computation really happens, in slow motion, on this CPU; the costs are those of a published model on an
assumed machine.
"""

from __future__ import annotations

import sys
from time import monotonic

from prescope.compare import CompareSettings, compare

SETTINGS = CompareSettings(new_tokens=8, time_budget_s=150.0)
BATCH = 8


def main() -> int:
    """Run the demonstration; 0 when all policies generated the stock model's tokens."""
    from prescope.commands.output import console, progress_console
    from prescope.inspection import recorded_view, step_path
    from prescope.models import TINY, open_model, shipped_prompts
    from prescope.report import comparison_heading, comparison_table, gantt

    began = monotonic()
    out, stderr = console(), progress_console()

    def progress(text: str) -> None:
        stderr.print(f"[{monotonic() - began:5.1f} s] {text}", style="dim", markup=False, soft_wrap=True)

    progress("loading the tiny model (7 million parameters, 8 layers of 32 experts, 4 per token)")
    model, tokenizer = open_model(TINY)
    prompts, others = shipped_prompts(TINY, BATCH, seed=SETTINGS.seed)
    result = compare(model, tokenizer, prompts, others, SETTINGS, name=TINY, progress=progress)
    out.print("\nWhat it writes, the same under every policy (prompt | continuation):", markup=False)
    for prompt, continuation in list(zip(result.prompts, result.continuations, strict=True))[:3]:
        out.print(f"  {prompt!r} | {continuation!r}", markup=False, soft_wrap=True)
    step = recorded_view(result.rows[-1].recording.steps[-1])
    out.print(f"\nThe last step under {result.rows[-1].policy}, as executed:", markup=False)
    path = [link.task for link in step_path(step)]
    drawing = gantt(step.schedule, width=min(out.width, 110), colour=out.is_terminal, path=path)
    out.print(drawing, soft_wrap=True)
    out.print("\n" + comparison_heading(result), markup=False, soft_wrap=True)
    out.print(comparison_table(result))
    equal = all(row.tokens_equal for row in result.rows)
    out.print(
        "\nplanned: by the exact evaluator; simulated: by the event simulator; executed: emulated in slow "
        "motion, real time divided by the dilation.\n"
        f"Tokens {'equal to' if equal else 'DIFFERENT from'} the stock model's; {monotonic() - began:.0f} s.",
        markup=False,
        soft_wrap=True,
    )
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())

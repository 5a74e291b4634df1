"""The picture of the README: one decode step of one instance under three methods, on one time axis.

``python benchmarks/picture.py`` writes ``docs/images/schedules.png``; needs the extra ``plot``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from prescope.formulation import evaluate
from prescope.instances import load_library_instance
from prescope.report.picture import draw_schedule, legend_handles
from prescope.solver import solve

INSTANCE = "qwen3-30b-a3b@a100-pcie4-b1-s0"
METHODS = ("intra-layer", "presched", "dp")
LAYERS = 8


def main() -> None:
    """Solve, draw and save."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instance", default=INSTANCE, help="name in the library")
    default = Path(__file__).resolve().parent.parent / "docs" / "images" / "schedules.png"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    instance = load_library_instance(options.instance).instance
    schedules = {}
    for method in METHODS:
        plan = solve(instance, method=method).plan
        if plan is None:
            raise SystemExit(f"expected a plan from {method}, got none")
        schedules[method] = evaluate(instance, plan)
    figure, axes = pyplot.subplots(len(METHODS), 1, figsize=(11, 5.2), sharex=True)
    for ax, (method, schedule) in zip(axes, schedules.items(), strict=True):
        draw_schedule(schedule, ax=ax)
        ax.set_title(f"{method}: whole step {schedule.makespan_ns / 1e6:.1f} ms", loc="left", fontsize=10)
        ax.set_xlabel("")
    axes[-1].set_xlim(0, max(schedule.layer_end_ns[LAYERS - 1] for schedule in schedules.values()) / 1e6)
    axes[-1].set_xlabel(f"ms (the first {LAYERS} of {instance.layers} layers; lines: a layer ends)")
    figure.suptitle(f"{instance.name}: planned, by the exact evaluator", fontsize=10)
    figure.legend(handles=legend_handles(), loc="lower center", ncols=6, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()

"""Predictors beside the baselines: per layer and horizon, for tokens, batches and planners.

``python benchmarks/predictors.py`` judges, on sequences that nothing was trained on,

- a routing-only predictor on real decode routing of gpt-oss-20b, with thinner variants of it,
- what needs no training on one recorded prompt of Qwen3-30B-A3B,
- all of them on the tiny model's own routing, with gating inputs,

and writes ``benchmarks/results/predictors.csv`` (every layer and horizon) and ``predictors.md``. The recorded
traces are taken from ``--traces``; those that are not there are left out and named. Everything but the
microseconds is the same in every run. Parts that are done are kept in ``build/predictors`` and taken from
there unless ``--again`` is given. Exit code 1 when the routing-only predictor misses what is claimed for it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from prescope.evaluation import BASELINES, EvaluateSettings, Evaluation, evaluate_predictor
from prescope.evaluation.cells import MEASURES, cells, summaries
from prescope.instances import RoutingTrace, read_trace
from prescope.predictor.evaluation import score
from prescope.predictor.routing_only import (
    RoutingOnly,
    RoutingOnlySettings,
    load_routing_only,
    save_routing_only,
    train_routing_only,
)
from prescope.predictor.split import split_sequences
from prescope.report.prediction import prediction_markdown

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "predictors"
FIELDS = ("trace", "predictor", "batch", "layer", "horizon", *MEASURES)

# Measured with the ridge baseline on another division of the same trace; the event error by decision.
RIDGE_RECALL = {1: 0.74, 2: 0.73, 3: 0.71, 4: 0.71}
EVENT_ERROR = 0.02

VARIANTS = {
    "all gates, weights, averages": RoutingOnlySettings(),
    "8 gates": RoutingOnlySettings(window=8),
    "4 gates": RoutingOnlySettings(window=4),
    "4 gates, no weights": RoutingOnlySettings(window=4, weights=False),
}


def main() -> int:
    """Judge, write both files, and say whether the claims hold."""
    options = parser().parse_args()
    torch.set_num_threads(1)
    began = monotonic()
    BUILD.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
        "gpt-oss-20b": gpt_oss,
        "gpt-oss-20b variants": variants,
        "qwen3-30b-a3b prompt": qwen_prompt,
        "tiny": tiny,
    }
    parts = {}
    for name, make in makers.items():
        kept = BUILD / f"{name.replace(' ', '-')}.json"
        if options.only and name not in options.only and not kept.exists():
            continue
        if options.again and (not options.only or name in options.only):
            kept.unlink(missing_ok=True)
        if not kept.exists():
            say(began, name)
            kept.write_text(json.dumps(make(options)), encoding="utf-8")
        parts[name] = json.loads(kept.read_text(encoding="utf-8"))
    options.output.mkdir(parents=True, exist_ok=True)
    lines = [line for part in parts.values() for line in part.get("lines", [])]
    (options.output / "predictors.csv").write_text(csv_text(lines), encoding="utf-8")
    checks = [check for part in parts.values() for check in part.get("checks", [])]
    (options.output / "predictors.md").write_text(markdown(parts, checks), encoding="utf-8")
    failed = [check for check in checks if not check["holds"]]
    for check in failed:
        print(f"FAILED {check['what']}: {check['got']}")
    print(f"{len(lines)} lines, {len(checks)} claims, {len(failed)} failed")
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published tables."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "traces")
    parsed.add_argument("--steps", type=int, default=200, help="decode steps judged per batch size")
    parsed.add_argument("--plan-steps", type=int, default=12)
    parsed.add_argument("--only", nargs="*", help="parts to make; the others are taken as they are")
    parsed.add_argument("--again", action="store_true", help="make parts anew that are done")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def gpt_oss(options: argparse.Namespace) -> dict[str, Any]:
    """The routing-only predictor on real decode routing."""
    trace = recorded(options, "gptoss_20b.npz")
    if trace is None:
        return {"missing": "gptoss_20b.npz"}
    folder = trained(trace, "all gates, weights, averages")
    settings = EvaluateSettings(
        horizons=8,
        max_steps=options.steps,
        plan_steps=options.plan_steps,
        preset="gpt-oss-20b@a100-pcie4",
    )
    found = evaluate_predictor(str(folder), trace, settings, progress=tell)
    return {"text": prediction_markdown(found, level=3), "lines": csv_lines(found), "checks": claims(found)}


def variants(options: argparse.Namespace) -> dict[str, Any]:
    """Thinner routing-only predictors, on the validation sequences: what each input is worth."""
    trace = recorded(options, "gptoss_20b.npz")
    if trace is None:
        return {"missing": "gptoss_20b.npz"}
    rows = []
    for name in VARIANTS:
        model = load_routing_only(trained(trace, name))
        row = [name, f"{model.nbytes / 2**20:.1f}"]
        for batch in (1, 8, 32):
            scores = score(
                RoutingOnly(model),
                trace,
                model.split.validation,
                batch=batch,
                horizons=8,
                reference=model.prior,
                max_steps=options.steps // 2 if batch > 1 else options.steps,
            )
            if batch == 8:
                means = {one.horizon: one.mean for one in summaries(scores)}
                row += [f"{means[horizon].recall:.3f}" for horizon in (1, 2, 4, 8)]
                row += [f"{means[horizon].brier_skill:.3f}" for horizon in (1, 8)]
            row.append(f"{scores.gate_ns / 1e3:.0f}")
        rows.append((*row[:2], *row[3:9], row[2], *row[9:]))
    header = ("inputs", "MiB", *(f"recall {h} ahead" for h in (1, 2, 4, 8)), "skill 1 ahead", "skill 8 ahead")
    header += tuple(f"us/gate B={batch}" for batch in (1, 8, 32))
    lines = [header, ("---",) * len(header), *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return {"text": f"On the {len(split_of(trace).validation)} validation sequences, by which inputs were "
            f"chosen; all eight horizons are predicted at every gate.\n\n{text}\n"}  # fmt: skip


def qwen_prompt(options: argparse.Namespace) -> dict[str, Any]:
    """One prompt of a model with many experts: too little to train on."""
    trace = recorded(options, "qwen3_30b_a3b.npz")
    if trace is None:
        return {"missing": "qwen3_30b_a3b.npz"}
    settings = EvaluateSettings(
        horizons=4,
        batches=(1, 8),
        max_steps=options.steps,
        plan_steps=options.plan_steps,
        preset="qwen3-30b-a3b@a100-pcie4",
    )
    found = evaluate_predictor("moving-average", trace, settings, progress=tell)
    return {"text": prediction_markdown(found, level=3), "lines": csv_lines(found)}


def tiny(options: argparse.Namespace) -> dict[str, Any]:
    """The tiny model's routing while it generates, with gating inputs and token ids."""
    from record_tiny_routing import record_tiny_routing

    from prescope.models import TINY, open_model
    from prescope.runtime.plugin.moe_layers import moe_layers
    from prescope.runtime.plugin.recording import trace_meta

    model, _ = open_model(TINY)
    trace = record_tiny_routing(hidden=True)
    # That trace is named after its file; a predictor asks for the checksum of the gates.
    facts = {"experts": trace.meta.experts, "source": trace.meta.source, "notes": trace.meta.notes}
    meta = trace_meta(model, moe_layers(model), **facts)
    trace = replace(trace, meta=replace(trace.meta, fingerprint=meta.fingerprint))
    folder = BUILD / "tiny-routing-only"
    if not (folder / "predictor.json").exists():
        save_routing_only(folder, train_routing_only(trace, split_of(trace)))
    settings = EvaluateSettings(
        horizons=6,
        max_steps=options.steps,
        plan_steps=options.plan_steps,
        baselines=(f"routing-only:{folder}", *BASELINES),
    )
    # LLaPor comes with the tiny model and was trained on other texts; the others learn from this trace.
    found = evaluate_predictor("llapor", trace, settings, model=model, progress=tell)
    return {"text": prediction_markdown(found, level=3), "lines": csv_lines(found)}


def trained(trace: RoutingTrace, variant: str) -> Path:
    """Folder of a variant's checkpoint, trained when it is not there."""
    folder = BUILD / f"gpt-oss-20b-{list(VARIANTS).index(variant)}"
    if not (folder / "predictor.json").exists():
        # A fixed number, because the order of sums depends on it.
        torch.set_num_threads(2)
        model = train_routing_only(
            trace,
            split_of(trace),
            VARIANTS[variant],
            progress=lambda done, total: tell(f"training, {variant}", done, total),
        )
        torch.set_num_threads(1)
        save_routing_only(folder, model)
    return folder


def split_of(trace: RoutingTrace) -> Any:
    """The division that all parts share."""
    # Seed 0 was in view while the calibration was chosen.
    return split_sequences(trace, seed=1)


def recorded(options: argparse.Namespace, name: str) -> RoutingTrace | None:
    """A recorded trace, or ``None`` where it is not there."""
    path = options.traces / name
    return read_trace(path) if path.is_file() else None


def claims(found: Evaluation) -> list[dict[str, Any]]:
    """What is claimed for the routing-only predictor, and whether it holds."""
    first = found.predictors[0]
    checks = []
    for scores in first.batches:
        for one in summaries(scores):
            if scores.batch == found.settings.batches[0]:
                if one.horizon in RIDGE_RECALL:
                    least = RIDGE_RECALL[one.horizon]
                    checks.append(claim(f"recall {one.horizon} ahead >= {least}", one.mean.recall, least))
                if one.horizon <= 6:
                    what = f"Brier skill {one.horizon} ahead > 0 in every layer"
                    checks.append(claim(what, one.worst_brier_skill, 1e-9))
            if one.horizon <= 6 and one.mean.event_error is not None:
                where = f"{one.horizon} ahead, layers together, batch {scores.batch}"
                what = f"event error {where} <= {EVENT_ERROR}"
                checks.append(claim(what, -one.mean.event_error, -EVENT_ERROR))
    return checks


def claim(what: str, value: float | None, least: float) -> dict[str, Any]:
    """One claim with the value that was found."""
    return {"what": what, "got": f"{abs(value or 0):.4f}", "holds": value is not None and value >= least}


def csv_lines(found: Evaluation) -> list[dict[str, Any]]:
    """One line per predictor, batch size, layer and horizon; no times, so that runs can be compared."""
    return [
        {
            "trace": found.model,
            "predictor": one.name,
            "batch": scores.batch,
            "layer": cell.layer,
            "horizon": cell.horizon,
            **{name: rounded(getattr(cell.measures, name)) for name in MEASURES},
        }
        for one in found.predictors
        for scores in one.batches
        for cell in cells(scores)
    ]


def rounded(value: float | None) -> str:
    """Four digits, or nothing."""
    return "" if value is None else f"{value:.4f}"


def csv_text(lines: list[dict[str, Any]]) -> str:
    """All lines as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(parts: dict[str, dict[str, Any]], checks: list[dict[str, Any]]) -> str:
    """All tables for people."""
    text = [
        "# Predictors\n",
        "Made by `python benchmarks/predictors.py` (do not edit). docs/evaluate.md says what the columns "
        "mean. Makespans are planned: realised gate by gate on the exact evaluator with assumed costs, "
        f"nothing was executed. Microseconds are measured on {platform.machine()}, Python "
        f"{platform.python_version()}, one thread; they are the only figures that change between runs.\n",
    ]
    if checks:
        text.append("## Claims\n\n| claim | found | holds |\n| --- | --- | --- |")
        text += [f"| {one['what']} | {one['got']} | {'yes' if one['holds'] else 'NO'} |" for one in checks]
        text.append("")
    for name, part in parts.items():
        text.append(f"## {name}\n")
        text.append(part.get("text") or f"Left out: {part['missing']} is not there.\n")
    return "\n".join(text)


def tell(what: str, done: int, total: int) -> None:
    """Progress, now and then."""
    if done % (50 if total > 100 else 4) == 0 or done == total:
        print(f"    {what}: {done} of {total}", file=sys.stderr, flush=True)


def say(began: float, name: str) -> None:
    """Progress by part."""
    print(f"[{monotonic() - began:6.1f} s] {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

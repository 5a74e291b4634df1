"""An evaluation of predictors as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from prescope.evaluation import Evaluation
    from prescope.evaluation.cells import HorizonSummary

Rows = list[tuple[str, ...]]
_SHOWN = (1, 2, 3, 4, 6, 8)

TOKEN_COLUMNS = ("predictor", "top-k recall", "within 2k", "Brier skill", "worst layer", "ECE")
BATCH_COLUMNS = ("predictor", "L1 soft", "L1 hard", "4 in 6", "event error", "worst layer", "us/gate")
PLAN_COLUMNS = (
    "predictor", "realised", "saved", "of most", "useful", "wasted", "late", "moved", "in vain",
)  # fmt: skip


def token_rows(evaluation: Evaluation, horizon: int) -> Rows:
    """Rows of one horizon under `TOKEN_COLUMNS`, from the first batch size."""
    rows: Rows = []
    for name, _, one in _summaries(evaluation, evaluation.settings.batches[0], horizon):
        mean = one.mean
        shown = (
            mean.recall,
            mean.wide_recall,
            mean.brier_skill,
            one.worst_brier_skill,
            mean.calibration_error,
        )
        rows.append((name, *map(_number, shown)))
    return rows


def batch_rows(evaluation: Evaluation, batch: int, horizon: int) -> Rows:
    """Rows of one horizon and batch size under `BATCH_COLUMNS`."""
    rows: Rows = []
    for name, gate_ns, one in _summaries(evaluation, batch, horizon):
        mean = one.mean
        shown = (mean.soft_count_error, mean.hard_count_error, mean.four_in_six, mean.event_error)
        rows.append((name, *map(_number, shown), _number(one.worst_event_error), f"{gate_ns / 1e3:.0f}"))
    return rows


def _summaries(evaluation: Evaluation, batch: int, horizon: int) -> Iterator[tuple[str, int, HorizonSummary]]:
    from prescope.evaluation.cells import summaries

    for found in evaluation.predictors:
        for scores in found.batches:
            if scores.batch == batch:
                yield (
                    found.name,
                    scores.gate_ns,
                    next(one for one in summaries(scores) if one.horizon == horizon),
                )


def plan_rows(evaluation: Evaluation, batch: int, policy: str) -> Rows:
    """Rows of one batch size and policy under `PLAN_COLUMNS`; empty where nothing was planned."""
    from prescope.formulation import format_ns

    mine = [row for row in evaluation.plans if row.batch == batch and row.policy == policy]
    if not mine:
        return []
    bare_ns, best_ns = mine[0].no_prefetch_ns, mine[0].clairvoyant_ns
    empty = ("",) * 5
    rows: Rows = [("(no prefetch)", format_ns(bare_ns), "0.0 %", "0 %", *empty)]
    rows += [
        (
            row.predictor,
            format_ns(row.realised_ns),
            f"{100 * row.gain:.1f} %",
            "-" if row.share is None else f"{100 * row.share:.0f} %",
            str(row.useful),
            str(row.wasted),
            str(row.late),
            f"{row.moved_bytes / 2**30:.2f} GiB",
            f"{row.wasted_bytes / 2**30:.2f} GiB",
        )
        for row in mine
    ]
    most = f"{100 * (1 - best_ns / bare_ns):.1f} %"
    return [*rows, ("(demand known)", format_ns(best_ns), most, "100 %", *empty)]


def shown_horizons(evaluation: Evaluation) -> tuple[int, ...]:
    """Horizons of the tables for people; the JSON has all."""
    most = min(evaluation.settings.horizons, evaluation.layers - 1)
    return tuple(one for one in _SHOWN if one <= most)


def left_out(evaluation: Evaluation) -> list[str]:
    """One line for every predictor that was left out."""
    return [f"{one.name}: left out, {one.missing}" for one in evaluation.predictors if one.missing]


def heading(evaluation: Evaluation) -> str:
    """What was judged, on what."""
    settings = evaluation.settings
    pieces = {scores.piece for one in evaluation.predictors for scores in one.batches if scores.piece}
    cut = f"; for the larger batches cut into pieces of {min(pieces)} tokens" if pieces else ""
    return (
        f"{_short(evaluation.predictor)} on {evaluation.model}: {evaluation.layers} layers, "
        f"{evaluation.experts} experts, top-{evaluation.top_k}. Judged on "
        f"{evaluation.judged} sequences that nothing was trained on "
        f"({evaluation.learned} for training){cut}. Means over the layers, predicted at a gate of the "
        f"same step; at most {settings.max_steps} steps of each batch size."
    )


def plan_heading(evaluation: Evaluation) -> str:
    """What the planning tables show."""
    settings = evaluation.settings
    charged = "charged to the host" if settings.charge else "not charged"
    return (
        f"Costs of {settings.preset} (assumed), {settings.resident_fraction:.0%} of the experts resident, "
        f"{settings.slots} slots, {settings.plan_steps} steps. Realised: forecasts as said at each gate, "
        f"true counts shown only there, priced by the exact evaluator; nothing was executed. Saved: against "
        f"no prefetching. The predictor's time is {charged}."
    )


def prediction_sections(evaluation: Evaluation) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    """Title, columns and rows of every table, in order."""
    for horizon in shown_horizons(evaluation):
        yield f"{horizon} ahead, tokens", TOKEN_COLUMNS, token_rows(evaluation, horizon)
        for batch in evaluation.settings.batches:
            rows = batch_rows(evaluation, batch, horizon)
            yield f"{horizon} ahead, batch {batch}", BATCH_COLUMNS, rows
    for batch in evaluation.settings.batches:
        for policy in evaluation.settings.policies:
            if rows := plan_rows(evaluation, batch, policy):
                yield f"planning with {policy}, batch {batch}", PLAN_COLUMNS, rows


def prediction_table(columns: tuple[str, ...], rows: Rows) -> Table:
    """One section for the terminal."""
    from prescope.report.tables import plain_table

    table = plain_table(*columns, fold=False)
    for row in rows:
        table.add_row(*row)
    return table


def prediction_markdown(evaluation: Evaluation, *, level: int = 2) -> str:
    """Everything for people, in markdown, with headings of a level."""
    parts = [heading(evaluation) + "\n"]
    parts += [f"**{evaluation.warning}**\n"] if evaluation.warning else []
    parts += [f"{line}.\n" for line in left_out(evaluation)]
    parts += [plan_heading(evaluation) + "\n"] if evaluation.plans else []
    for title, columns, rows in prediction_sections(evaluation):
        parts += [f"{'#' * level} {title[0].upper()}{title[1:]}\n", _markdown(columns, rows)]
    return "\n".join(parts)


def _markdown(header: Iterable[str], rows: Rows) -> str:
    lines = [tuple(header), *rows]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], "|" + " --- |" * len(lines[0]), *text[1:]]) + "\n"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}"


def _short(predictor: str) -> str:
    """A name without the place of its folder, which says nothing to other readers."""
    kind, colon, folder = predictor.partition(":")
    return f"{kind}{colon}{folder.rstrip('/').rpartition('/')[2]}"

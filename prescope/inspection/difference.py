"""Two runs of the same work: what moved, and what it gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prescope.formulation import Instance, Lane, Schedule, TaskKind
from prescope.inspection.spent import spent
from prescope.inspection.view import StepView, View
from prescope.report.origin import Origin, mark

Key = tuple[int, int]
# Of what files say of themselves, that which makes two runs different.
_TOLD = ("model", "policy", "predictor", "retention", "residency", "costs", "backend", "machine", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One expert whose weights came another way.

    Parameters
    ----------
    step, layer, expert
        Which.
    before, after
        Where its weights came from, or who computed it.
    """

    step: int
    layer: int
    expert: int
    before: Origin
    after: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """One step of both.

    Parameters
    ----------
    index
        Its number.
    before_ns, after_ns
        Its makespan.
    moved
        Experts whose weights came another way.
    copies_added, copies_dropped
        Copies that only the second has, and that only the first has.
    copies_earlier, copies_later
        Copies of both that start earlier or later, counted from the step's start.
    """

    index: int
    before_ns: int
    after_ns: int
    moved: tuple[Moved, ...]
    copies_added: tuple[Key, ...]
    copies_dropped: tuple[Key, ...]
    copies_earlier: int
    copies_later: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDifference:
    """One layer over all steps of both."""

    layer: int
    before_ns: int
    after_ns: int
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """A part of the time spent, over all steps of both."""

    name: str
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What two runs have and have not in common.

    Parameters
    ----------
    before, after
        Names of the schedules compared.
    before_ns, after_ns
        Their makespans, summed over the steps of both.
    steps, layers, parts
        In order.
    notices
        What else is different, in words: other costs, other slots, steps that only one has.
    """

    before: str
    after: str
    before_ns: int
    after_ns: int
    steps: tuple[StepDifference, ...]
    layers: tuple[LayerDifference, ...]
    parts: tuple[PartDifference, ...]
    notices: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Time of the second by time of the first; ``None`` when the first took none."""
        return self.after_ns / self.before_ns if self.before_ns else None

    def slower(self, most: float) -> bool:
        """Whether the second is slower by more than this share."""
        return self.after_ns > (1 + most) * self.before_ns

    @property
    def moves(self) -> tuple[tuple[Origin, Origin, int], ...]:
        """How many experts moved from where to where, the most first."""
        pairs = Counter((one.before, one.after) for step in self.steps for one in step.moved)
        return tuple((*pair, number) for pair, number in pairs.most_common())


def difference(before: View, after: View, *, schedule: str | None = None, anyway: bool = False) -> Difference:
    """Compare what has steps.

    Parameters
    ----------
    before, after
        Plans, programs, traces, recordings or plans of horizons. A step is compared with that of the same
        number, a single step with a single step.
    schedule
        Which schedules; by default what happened in both, or the last that both have.
    anyway
        Compare though the tokens of the steps are not the same.

    Raises
    ------
    ValueError
        When one has no steps, they have none in common, the steps are of another shape, or of other tokens.
    """
    for view in (before, after):
        if not view.steps:
            raise ValueError(f"expected two files with steps, got {view.kind.value} in {view.path}")
    pairs, notices = _pairs(before, after)
    notices += _told(before, after)
    first, second = _names(pairs, schedule)
    if first != second:
        notices.append(f"{first} times against {second} times")
    found: list[StepDifference] = []
    layers: dict[int, list[int]] = {}
    parts: dict[str, list[int]] = {}
    for one, other in pairs:
        notices += _same_work(before, after, one, other, anyway=anyway)
        here, there = one.schedules[first], other.schedules[second]
        if len(here.layer_end_ns) != len(there.layer_end_ns):
            raise ValueError(
                f"expected as many layers in {before.path} and {after.path}, "
                f"got {len(here.layer_end_ns)} and {len(there.layer_end_ns)}"
            )
        step = _step(one.index, here, there)
        found.append(step)
        for side, drawn in enumerate((here, there)):
            for layer, length_ns in enumerate(_lengths(drawn)):
                layers.setdefault(layer, [0, 0, 0])[side] += length_ns
            for part in spent(drawn):
                parts.setdefault(part.name, [0, 0])[side] += part.ns
        for moved in step.moved:
            layers[moved.layer][2] += 1
    return Difference(
        before=first,
        after=second,
        before_ns=sum(step.before_ns for step in found),
        after_ns=sum(step.after_ns for step in found),
        steps=tuple(found),
        layers=tuple(
            LayerDifference(layer=layer, before_ns=a, after_ns=b, moved=moved)
            for layer, (a, b, moved) in sorted(layers.items())
        ),
        parts=tuple(PartDifference(name=name, before_ns=a, after_ns=b) for name, (a, b) in parts.items()),
        notices=tuple(dict.fromkeys(notices)),
    )


def _pairs(before: View, after: View) -> tuple[list[tuple[StepView, StepView]], list[str]]:
    if len(before.steps) == len(after.steps) == 1:
        return [(before.steps[0], after.steps[0])], []
    later = {step.index: step for step in after.steps}
    pairs = [(step, later[step.index]) for step in before.steps if step.index in later]
    if not pairs:
        raise ValueError(
            f"expected steps of the same numbers in both, got {_span(before)} in {before.path} "
            f"and {_span(after)} in {after.path}"
        )
    notices = [
        f"{len(view.steps) - len(pairs)} steps that only {view.path} has are left out"
        for view in (before, after)
        if len(view.steps) > len(pairs)
    ]
    return pairs, notices


def _told(before: View, after: View) -> list[str]:
    """What the files say of themselves that is not the same."""
    sides = before.provenance, after.provenance
    return [
        f"{key}: {sides[0][key]} against {sides[1][key]}"
        for key in _TOLD
        if all(key in side for side in sides) and sides[0][key] != sides[1][key]
    ]


def _span(view: View) -> str:
    return f"{view.steps[0].index} to {view.steps[-1].index}"


def _names(pairs: list[tuple[StepView, StepView]], asked: str | None) -> tuple[str, str]:
    sides = [
        [name for name in pair[0].schedules if all(name in one.schedules for one in pair)]
        for pair in (tuple(side) for side in zip(*pairs, strict=True))
    ]
    if asked is not None:
        for names in sides:
            if asked not in names:
                raise ValueError(f"expected --schedule among {', '.join(names)}, got {asked!r}")
        return asked, asked
    common = [name for name in sides[0] if name in sides[1]]
    if common:
        return common[-1], common[-1]
    return sides[0][-1], sides[1][-1]


def _same_work(before: View, after: View, one: StepView, other: StepView, *, anyway: bool) -> Iterator[str]:
    """Refuse steps of other work; words for everything else that is different."""
    first, second = one.instance, other.instance
    if first is None or second is None:
        names = [view.notes.get("instance") for view in (one, other)]
        if None not in names and names[0] != names[1] and not anyway:
            _refuse(f"instance {names[0]!r} in {before.path} and {names[1]!r} in {after.path}")
        yield "not checked whether both are of the same work: a trace has no instance"
        return
    if first.demand != second.demand:
        where = f"step {one.index} of {before.path} and step {other.index} of {after.path}"
        if not anyway:
            _refuse(f"other tokens of the experts in {where}")
        yield f"other tokens in {where}"
    yield from _settings(first, second)


def _refuse(problem: str) -> None:
    raise ValueError(
        f"expected two runs of the same work, got {problem}; --anyway compares them all the same"
    )


def _settings(first: Instance, second: Instance) -> Iterator[str]:
    for name in ("slots", "lookahead", "tier", "host_computes"):
        a, b = getattr(first, name), getattr(second, name)
        if a != b:
            yield f"{name}: {a} against {b}"
    if first.costs != second.costs:
        yield f"costs: {first.costs.source} against {second.costs.source}"
    a, b = (sum(map(len, one.residents)) for one in (first, second))
    if a != b:
        yield f"residents: {a} against {b}"
    elif first.residents != second.residents:
        yield "other residents"


def _step(index: int, before: Schedule, after: Schedule) -> StepDifference:
    here, there = _places(before), _places(after)
    copied, copies = _copies(before), _copies(after)
    both = copied.keys() & copies.keys()
    return StepDifference(
        index=index,
        before_ns=before.makespan_ns,
        after_ns=after.makespan_ns,
        moved=tuple(
            Moved(step=index, layer=key[0], expert=key[1], before=here[key], after=there[key])
            for key in sorted(here.keys() & there.keys())
            if here[key] is not there[key]
        ),
        copies_added=tuple(sorted(copies.keys() - both)),
        copies_dropped=tuple(sorted(copied.keys() - both)),
        copies_earlier=sum(copies[key] < copied[key] for key in both),
        copies_later=sum(copies[key] > copied[key] for key in both),
    )


def _places(schedule: Schedule) -> dict[Key, Origin]:
    return {
        (entry.task.layer, entry.task.expert): entry.origin
        for entry in mark(schedule)
        if entry.task.kind is TaskKind.COMPUTE and entry.task.expert is not None
    }


def _copies(schedule: Schedule) -> dict[Key, int]:
    return {(task.layer, task.expert or 0): task.start_ns for task in schedule.lane(Lane.LINK)}


def _lengths(schedule: Schedule) -> list[int]:
    starts = (0, *schedule.layer_end_ns)
    return [end_ns - start_ns for start_ns, end_ns in zip(starts, schedule.layer_end_ns, strict=False)]

"""One schedule small enough to be checked by eye: every origin of weights occurs once."""

from prescope.formulation import Lane, Schedule, Task, TaskKind


def task(
    kind: str, lane: str, layer: int, expert: int | None, slot: int | None, start_ns: int, end_ns: int
) -> Task:
    return Task(
        kind=TaskKind(kind),
        lane=Lane(lane),
        layer=layer,
        expert=expert,
        slot=slot,
        start_ns=start_ns,
        end_ns=end_ns,
    )


SMALL = Schedule(
    tasks=(
        task("copy", "link", 0, 5, 0, -20, 10),  # began in the step before
        task("dense", "gpu", 0, None, None, 0, 20),
        task("copy", "link", 1, 7, 1, 10, 50),  # prefetched
        task("compute", "gpu", 0, 5, 0, 20, 30),
        task("compute", "cpu", 0, 2, None, 20, 60),
        task("compute", "gpu", 0, 1, None, 30, 40),  # resident
        task("copy", "link", 1, 9, 2, 50, 70),  # nobody uses it
        task("dense", "gpu", 1, None, None, 60, 80),
        task("compute", "gpu", 1, 7, 1, 80, 90),
        task("copy", "link", 1, 8, 0, 80, 100),  # on demand
        task("compute", "gpu", 1, 8, 0, 100, 120),
    ),
    layer_end_ns=(60, 120),
    makespan_ns=120,
)

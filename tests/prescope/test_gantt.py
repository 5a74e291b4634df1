"""The terminal Gantt, compared with what was drawn by hand and with exact sums."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_schedule import SMALL
from tiny_instances import instances_with_plans

from prescope.formulation import InfeasiblePlanError, Instance, Plan, evaluate
from prescope.inspection import critical_path
from prescope.report import gantt

# 28 cells of 5 ns each, from -20 ns to 120 ns.
BY_HAND = """\
          L0          L1
link  ppppppppppppppxxxx..oooo....  79 %
gpu   ....ddddpprr....ddddpp..oooo  64 %
cpu   ........cccccccc............  29 %
      -20 ns                120 ns
      d dense   r resident   p prefetched   o on demand   c cpu   x unused copy"""


def test_every_column_of_a_known_schedule() -> None:
    drawn = gantt(SMALL, width=28 + 12).plain
    assert drawn == BY_HAND


def test_the_critical_path_is_a_row_of_its_own() -> None:
    path = [link.task for link in critical_path(SMALL)]
    rows = gantt(SMALL, width=28 + 12, path=path).plain.splitlines()
    assert rows[4] == "path  ....GGGGCCCCCCCCGGGGLLLLGGGG"
    assert rows[-1].strip() == "path: what the end waits for; L link, G gpu, C cpu"


def test_the_share_is_that_of_the_time_drawn() -> None:
    rows = gantt(SMALL, width=60, layers=(1, 1)).plain.splitlines()
    assert rows[0].split() == ["L1"]
    assert [row[-5:].strip() for row in rows[1:4]] == ["50 %", "83 %", "0 %"]


@pytest.mark.parametrize("wrong", [(-1, 0), (0, 2), (1, 0)])
def test_layers_out_of_range_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"expected layers FIRST:LAST in \[0, 1\]"):
        gantt(SMALL, width=60, layers=wrong)


def test_colours_are_blocks_and_letters_are_plain() -> None:
    coloured, plain = gantt(SMALL, width=60, colour=True), gantt(SMALL, width=60)
    assert "█" in coloured.plain and "█" not in plain.plain
    assert {str(span.style) for span in coloured.spans} >= {"green", "cyan", "yellow", "magenta", "red"}
    assert not [span for span in plain.spans if str(span.style)]


@given(instances_with_plans(), st.integers(1, 200))
def test_rows_fill_the_width_exactly(drawn: tuple[Instance, Plan], width: int) -> None:
    try:
        schedule = evaluate(*drawn)
    except InfeasiblePlanError:
        assume(False)
    rows = gantt(schedule, width=width).plain.splitlines()[1:4]
    assert {len(row) for row in rows} == {max(width, 22)}
    assert [row.split()[0] for row in rows] == ["link", "gpu", "cpu"]
    # A lane shown as busy somewhere is busy, and a lane without tasks stays idle.
    for row in rows:
        lane = [task for task in schedule.tasks if task.lane == row.split()[0]]
        assert set(row[6:-6]) <= set("drplocx.") and (lane or set(row[6:-6]) == {"."})

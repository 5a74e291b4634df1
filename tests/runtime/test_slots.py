"""Which change of a slot is legal in which state."""

import pytest

from prescope.runtime import SlotState, SlotStateError, SlotTable

EXPERT = (2, 7)

REACH = {
    SlotState.FREE: (),
    SlotState.LOADING: ("begin_load",),
    SlotState.READY: ("begin_load", "end_load"),
    SlotState.IN_USE: ("begin_load", "end_load", "begin_use"),
    SlotState.UNKNOWN: ("spoil",),
    SlotState.ZOMBIE: ("bury",),
}
LEGAL = {
    "begin_load": {SlotState.FREE, SlotState.READY, SlotState.UNKNOWN},
    "end_load": {SlotState.LOADING},
    "begin_use": {SlotState.READY, SlotState.IN_USE},
    "end_use": {SlotState.IN_USE},
    "spoil": set(SlotState),
    "bury": set(SlotState),
    "revive": {SlotState.ZOMBIE},
}


def call(table, name, expert=EXPERT):
    getattr(table, name)(0, *(expert if name.startswith(("begin", "end")) else ()))


@pytest.mark.parametrize("state", SlotState)
@pytest.mark.parametrize("name", LEGAL)
def test_every_change_in_every_state(state, name):
    table = SlotTable(1)
    for step in REACH[state]:
        call(table, step)
    assert table.state(0) is state
    if state in LEGAL[name]:
        call(table, name)
    else:
        with pytest.raises(SlotStateError, match=f"got {state}"):
            call(table, name)
        assert table.state(0) is state


@pytest.mark.parametrize("name", ["end_load", "begin_use", "end_use"])
def test_another_expert_is_never_taken_for_the_one_that_is_there(name):
    table = SlotTable(1)
    for step in {"end_load": REACH[SlotState.LOADING], "begin_use": REACH[SlotState.READY]}.get(
        name, REACH[SlotState.IN_USE]
    ):
        call(table, step)
    with pytest.raises(SlotStateError, match="layer 2 expert 7"):
        call(table, name, (2, 8))


def test_the_last_reader_ends_the_use():
    table = SlotTable(1)
    for name in ("begin_load", "end_load", "begin_use", "begin_use", "end_use"):
        call(table, name)
    assert table.state(0) is SlotState.IN_USE
    call(table, "end_use")
    assert table.state(0) is SlotState.READY
    assert table.holds(0) == EXPERT


def test_a_zombie_stays_one_until_its_writer_ends():
    table = SlotTable(1)
    table.bury(0)
    table.spoil(0)
    assert table.state(0) is SlotState.ZOMBIE
    table.revive(0)
    assert table.state(0) is SlotState.UNKNOWN
    assert table.holds(0) is None

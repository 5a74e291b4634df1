"""Host rows and device rows: shapes, budgets, poison."""

import pytest
import torch

from prescope.runtime import DeviceArena, HostStore, Part, PlanError, consecutive_parts, synthetic_store


def test_parts_are_views_of_the_row():
    store = HostStore(
        [torch.arange(24.0).reshape(2, 12)], consecutive_parts({"up": (2, 3), "bias": (2,), "down": (2, 2)})
    )
    views = store.views(0, store.row(0, 1))
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "up": (2, 3),
        "bias": (2,),
        "down": (2, 2),
    }
    assert views["bias"].tolist() == [18.0, 19.0]
    assert views["down"].data_ptr() == store.rows[0].data_ptr() + 20 * 4
    assert store.size_bytes == 96
    assert store.row_bytes(0) == 48


@pytest.mark.parametrize(
    ("rows", "parts", "message"),
    [
        ([], None, "at least one layer"),
        ([torch.zeros(3)], None, r"\[experts, elements\]"),
        ([torch.zeros(3, 4).t()], None, "contiguous"),
        ([torch.zeros(3, 4, dtype=torch.int32)], None, "floating"),
        ([torch.zeros(3, 4), torch.zeros(2, 4)], None, "expected 3 experts"),
        ([torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.float64)], None, "float64"),
        ([torch.zeros(3, 4)], [Part(name="a", shape=(5,), offset=0)], "within 4 elements"),
        ([torch.zeros(3, 4)], [Part(name="a", shape=(2,), offset=0)] * 2, "overlap"),
        (
            [torch.zeros(3, 4)],
            [Part(name="a", shape=(2,), offset=0), Part(name="a", shape=(2,), offset=2)],
            "distinct part names",
        ),
        ([torch.zeros(3, 4)] * 2, [[Part(name="a", shape=(2,), offset=0)]], "parts of 2 layers"),
    ],
)
def test_what_does_not_fit_together_is_refused(rows, parts, message):
    with pytest.raises(ValueError, match=message):
        HostStore(rows, parts)


def test_the_checksum_sees_one_changed_value():
    store = synthetic_store(layers=2, experts=3)
    before = store.checksum()
    assert synthetic_store(layers=2, experts=3).checksum() == before
    store.rows[1][2, 5] += 1
    assert store.checksum() != before


def test_layers_may_differ_in_size():
    store = HostStore([torch.zeros(2, 4), torch.ones(2, 6)])
    arena = DeviceArena(store, residents=((0,), (1,)), slots=2)
    assert arena.size_bytes == (4 + 6 + 2 * 6) * 4
    assert arena.slot_row(1, 0, 0).shape == (4,)
    assert arena.slot_row(1, 1, 0).shape == (6,)
    assert arena.slot_row(0, 1, 0).isnan().all()
    assert arena.device_row(1, 1, None).tolist() == [1.0] * 6


def test_residents_are_copies():
    store = synthetic_store(layers=1, experts=2)
    arena = DeviceArena(store, residents=((1,),), slots=0)
    wanted = store.row(0, 1).clone()
    store.row(0, 1).zero_()
    assert torch.equal(arena.resident_row(0, 1), wanted)
    with pytest.raises(PlanError, match="resident of layer 0, got expert 0"):
        arena.resident_row(0, 0)


def test_the_budget_holds():
    store = synthetic_store(layers=2, experts=4, elements=24)
    exact = (3 + 2) * 96
    assert DeviceArena(store, residents=((0, 1), (2,)), slots=2, budget_bytes=exact).size_bytes == exact
    with pytest.raises(PlanError, match="3 residents and 2 slots"):
        DeviceArena(store, residents=((0, 1), (2,)), slots=2, budget_bytes=exact - 1)


@pytest.mark.parametrize("residents", [((4,), ()), ((1, 1), ()), ((0,),)])
def test_impossible_residents_are_refused(residents):
    with pytest.raises(PlanError, match="residents"):
        DeviceArena(synthetic_store(layers=2, experts=4), residents=residents, slots=1)


def test_the_arena_is_made_of_ordinary_tensors_even_under_inference_mode():
    with torch.inference_mode():
        arena = DeviceArena(synthetic_store(layers=1, experts=2), residents=((0,),), slots=1)
    assert not arena.slot_row(0, 0, 0).is_inference()
    assert not arena.resident_row(0, 0).is_inference()

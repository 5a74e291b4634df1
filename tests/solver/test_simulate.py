"""The fast simulation gives the exact evaluator's times, whatever the choice."""

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import evaluate
from prescope.formulation.workload import workload
from prescope.solver.build_plan import build_plan
from prescope.solver.descent import LEVELS, descend
from prescope.solver.simulate import new_choice, new_track, simulate


def random_choice(work, rng):
    choice = new_choice(work)
    if work.host_computes:
        choice.take[:] = (rng.random(len(choice.take)) < 0.6) & (work.slots > 0)
        choice.keep[:] = rng.random(len(choice.keep)) < 0.7
    else:
        choice.take[:] = True
    for low, high in zip(work.missing_offsets[:-1], work.missing_offsets[1:], strict=True):
        choice.sequence[low:high] = rng.permutation(choice.sequence[low:high])
    return choice


def test_times_equal_the_evaluators() -> None:
    for seed in range(600):
        rng = np.random.default_rng(seed)
        instance = make_instance(seeded(seed), predictions=seed % 3 == 0)
        work = workload(instance)
        choice = random_choice(work, rng)
        ahead = int(rng.integers(0, work.lookahead + 1))
        track = new_track(work)
        makespan_ns = simulate(work, choice, ahead, track)
        schedule = evaluate(instance, build_plan(work, choice, lookahead=ahead))
        assert schedule.makespan_ns == makespan_ns, seed
        assert schedule.layer_end_ns == tuple(track.starts_ns[1:].tolist()), seed


def test_descent_reports_what_its_choice_costs_and_keeps_within_its_budget() -> None:
    for seed in range(200):
        instance = make_instance(seeded(seed), predictions=seed % 2 == 0)
        work = workload(instance)
        choice = random_choice(work, np.random.default_rng(seed))
        before = simulate(work, choice, work.lookahead, new_track(work))
        after, spent = descend(work, choice, 3000, LEVELS)
        assert after <= before
        assert evaluate(instance, build_plan(work, choice)).makespan_ns == after, seed
        # One move may overshoot by one pass over all layers.
        assert spent <= 3000 + len(work.missing) + len(work.resident) + 4 * instance.layers


def test_no_exchange_and_no_single_move_improves_a_finished_descent() -> None:
    for seed in range(60):
        instance = make_instance(seeded(seed), host=True, max_experts=6, predictions=seed % 2 == 0)
        work = workload(instance)
        choice = random_choice(work, np.random.default_rng(seed))
        reached, _ = descend(work, choice, 10**7, LEVELS)
        places = [(choice.take, rank) for rank in range(len(choice.take)) if work.slots > 0]
        places += [(choice.keep, rank) for rank in range(len(choice.keep))]
        layers = [
            int(np.searchsorted(work.missing_offsets, rank, "right")) for rank in range(len(choice.take))
        ]
        layers = layers if work.slots > 0 else []
        layers += [
            int(np.searchsorted(work.resident_offsets, rank, "right")) for rank in range(len(choice.keep))
        ]
        for one, (side, rank) in enumerate(places):
            side[rank] ^= True
            assert simulate(work, choice, work.lookahead, new_track(work)) >= reached, seed
            for two in range(one + 1, len(places)):
                other, place = places[two]
                if layers[one] == layers[two] and other[place] == side[rank]:
                    other[place] ^= True
                    assert simulate(work, choice, work.lookahead, new_track(work)) >= reached, seed
                    other[place] ^= True
            side[rank] ^= True


def test_workload_lists_every_activated_expert_once_in_order() -> None:
    for seed in range(100):
        instance = make_instance(seeded(seed))
        work = workload(instance)
        for layer in range(instance.layers):
            missing = slice(work.missing_offsets[layer], work.missing_offsets[layer + 1])
            resident = slice(work.resident_offsets[layer], work.resident_offsets[layer + 1])
            ids = [*work.missing[missing].tolist(), *work.resident[resident].tolist()]
            assert sorted(ids) == instance.demand.counts[layer].nonzero()[0].tolist()
            assert set(work.resident[resident].tolist()) <= set(instance.residents[layer])
            assert (np.diff(work.missing_cpu_ns[missing]) <= 0).all()
            assert (np.diff(work.resident_cpu_ns[resident]) >= 0).all()

"""Reads in flight over a disk: how many, in which order, and never under a reader."""

import threading
import time

from disk_rig import FILL, PATIENT_S, rig

from prescope.runtime import SlotState


def test_as_many_reads_are_in_flight_as_asked_for_and_no_more():
    for depth in (1, 3):
        barrier, lock, running, most = threading.Barrier(depth), threading.Lock(), [0], [0]

        def hook(layer, expert, barrier=barrier, lock=lock, running=running, most=most):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            # Passed only by as many reads as are meant to run at once.
            barrier.wait(PATIENT_S)
            with lock:
                running[0] -= 1

        with rig(slots=6, hook=hook, depth=depth) as r:
            r.step(((0, 1, 2, 3, 4, 5), [(expert, expert) for expert in range(6)]))
            assert most[0] == depth


def test_reads_start_in_link_order():
    started = []
    with rig(hook=lambda layer, expert: started.append(expert), depth=1) as r:
        r.step(((0, 1, 2, 3), [(3, 0), (1, 1), (2, 2), (0, 3)]))
    assert started == [3, 1, 2, 0]


def test_whichever_expert_has_landed_is_computed_first():
    computed = threading.Event()

    def hook(layer, expert):
        if expert == 0:
            assert computed.wait(PATIENT_S)

    with rig(hook=hook, depth=2) as r:
        r.step(FILL, work=lambda layer, expert: computed.set() if expert == 3 else None)
        assert r.order[-1] == (0, 0)
        assert len(r.order) == 4


def test_a_computation_does_not_take_a_slot_whose_read_was_overtaken_by_later_ones():
    # In the program the second computation's wait for the first copy is implied by link order.
    def hook(layer, expert):
        if expert == 0:
            time.sleep(0.05)

    with rig(hook=hook, depth=4) as r:
        r.step(((3, 0), [(0, 0), (3, 3)]))
        program = r.stepper.program()
        second = next(op for op in program.ops if (op.stream, op.expert) == ("gpu", 0))
        assert all(program.ops[wait].stream != "link" for wait in second.waits)
        assert r.order == [(0, 3), (0, 0)]


def test_a_read_does_not_take_a_slot_whose_computation_was_overtaken_by_later_ones():
    # In the program the last copy's wait for the first computation is implied by the second one's.
    busy = threading.Event()

    def hook(layer, expert):
        if expert == 0:
            assert busy.wait(PATIENT_S)

    def work(layer, expert):
        if expert == 2:
            # The first read lands while the caller computes this one.
            busy.set()
            time.sleep(0.05)

    with rig(slots=3, hook=hook, depth=4) as r:
        r.step(((0, 1, 2, 3, 4), [(0, 0), (1, 1), (2, 2), (3, 1), (4, 0)]), work=work)
        ops = r.stepper.program().ops
        last = next(op for op in ops if (op.kind, op.expert) == ("copy", 4))
        assert all(ops[wait].expert != 0 for wait in last.waits)
        assert r.order.index((0, 2)) < r.order.index((0, 0)) < r.order.index((0, 4))


def test_reads_to_one_slot_never_overlap_and_wait_for_its_reader():
    running, lock = set(), threading.Lock()
    slot_of = {0: 0, 1: 0, 2: 0, 3: 1}

    def hook(layer, expert):
        with lock:
            assert slot_of[expert] not in running
            running.add(slot_of[expert])
        time.sleep(0.002)
        with lock:
            running.discard(slot_of[expert])

    with rig(slots=2, hook=hook, depth=4) as r:
        for _ in range(5):
            r.step(((3, 0, 1, 2), [(3, 1), (0, 0), (1, 0), (2, 0)]))
            # Nobody computes the first of these, yet the second must not land under it.
            r.stepper.reset()
            r.step(((1,), [(0, 0), (1, 0)]))
            r.stepper.reset()


def test_rows_kept_from_earlier_steps_are_not_read_again_and_the_step_ends_with_its_reads():
    reads = []

    def hook(layer, expert):
        time.sleep(0.005)
        reads.append((layer, expert))

    with rig(hook=hook, depth=2) as r:
        trace = r.step(((0,), [(0, 0), (1, 1, 1), (1, 2, 2)]), ((), ()))
        assert reads and set(reads) == {(0, 0), (1, 1), (1, 2)}
        assert trace.carried == ()
        assert [r.backend.slots.state(slot) for slot in range(3)] == [SlotState.READY] * 3
        again = r.step(((0,), ()), ((1, 2), ()))
        assert len(reads) == 3
        assert again.row_bytes_moved == 0
        assert sorted(r.order) == [(0, 0), (1, 1), (1, 2)]


def test_without_carried_contents_reads_nobody_needs_go_on_into_the_next_step():
    release = threading.Event()

    def hook(layer, expert):
        if expert == 7:
            assert release.wait(PATIENT_S)

    with rig(hook=hook, carry=False) as r:
        trace = r.step(((0,), [(0, 0), (1, 7, 1)]))
        assert trace.carried == ((1, 7),)
        r.step(((0,), [(0, 0)]))
        release.set()
        r.step(((0,), [(0, 1)]))

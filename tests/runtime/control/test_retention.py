"""Who gives a place to whom at a gate, by the scores of a rule."""

import numpy as np
import pytest

from prescope.runtime.control.retention import Exchange, Retention

EXPERTS = 6


class Said:
    """A rule that says what it is told to, and remembers what it was told."""

    name = "said"

    def __init__(self, scores):
        self.said, self.seen, self.asked, self.ended, self.closed = scores, [], [], 0, False

    def observe(self, layer, counts, steps=1.0):
        self.seen.append((layer, counts.tolist(), steps))

    def scores(self, layer, tokens):
        self.asked.append((layer, tokens))
        return self.said

    def end_step(self):
        self.ended += 1

    def close(self):
        self.closed = True


def retained(scores, residents=((0, 1, 2), (3,)), tokens=1, coming=1, needed_from=None):
    rule = Said(scores)
    retention = Retention(rule, residents, experts=EXPERTS, needed_from=needed_from)
    retention.begin_step(tokens=tokens, coming_tokens=coming)
    return rule, retention


def counts(*active):
    found = np.zeros(EXPERTS, dtype=np.int64)
    found[list(active)] = 1
    return found


def places(retention):
    mask = retention.begin_step(tokens=1, coming_tokens=1)
    return [row.nonzero()[0].tolist() for row in mask]


def test_the_best_that_come_take_the_places_of_the_worst_that_are_idle():
    _, retention = retained([3.0, 1.0, 2.0, 9.0, 2.5, 8.0])
    made = retention.gate(0, counts(3, 4, 5), (3, 4, 5))
    assert made == (Exchange(0, 3, 1), Exchange(0, 5, 2))
    assert retention.exchanges == made
    assert places(retention) == [[0, 3, 5], [3]]
    assert retention.exchanges == ()


def test_those_with_tokens_stay_and_equals_do_not_move():
    _, retention = retained([2.0, 0.0, 5.0, 2.0, 1.0, 0.5])
    # Expert 1 is worth nothing but has tokens; expert 3 is worth no more than 0.
    assert retention.gate(0, counts(1, 3), (3,)) == ()
    assert retention.gate(1, counts(5), (0, 5)) == ()
    assert places(retention) == [[0, 1, 2], [3]]


def test_a_resident_with_tokens_gives_way_to_who_has_its_slot_until_the_layer_is_over():
    scores = [2.0, 0.0, 5.0, 3.0, 1.0, 2.5]
    _, retention = retained(scores, coming=2, needed_from=2)
    # Expert 1 is worth least but has tokens: expert 3 may have its place, expert 5 only that of an idle one.
    made = retention.gate(0, counts(1, 3, 5), (3, 5), lasting={3})
    assert made == (Exchange(0, 3, 1), Exchange(0, 5, 0))
    assert places(retention) == [[2, 3, 5], [3]]
    for needed_from in (None, 3):
        _, retention = retained(scores, coming=2, needed_from=needed_from)
        assert retention.gate(0, counts(1, 3, 5), (3, 5), lasting={3}) == (Exchange(0, 3, 0),)


def test_of_equals_the_first_comes_for_the_first():
    _, retention = retained([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert retention.gate(0, counts(3, 4, 5), (5, 4)) == (Exchange(0, 4, 0), Exchange(0, 5, 1))


def test_a_rule_is_told_of_every_gate_and_asked_where_somebody_comes():
    rule, retention = retained(None, tokens=12, coming=3)
    assert retention.gate(0, counts(0), ()) == ()
    assert retention.gate(1, counts(1), (1,)) == ()
    assert rule.seen == [(0, counts(0).tolist(), 4.0), (1, counts(1).tolist(), 4.0)]
    assert rule.asked == [(1, 3)]
    ended = rule.ended
    retention.end_step()
    assert rule.ended == ended + 1
    retention.begin_step(tokens=2, coming_tokens=3)
    retention.gate(0, counts(0), (0, 4))
    assert rule.seen[-1][2] == 1.0
    retention.close()
    assert rule.closed


def test_after_a_step_that_was_given_up_others_are_resident_and_the_rule_knows():
    rule, retention = retained([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    retention.gate(0, counts(3), (3,))
    ended = rule.ended
    retention.resume(((0, 1, 2), (4,)))
    assert rule.ended == ended + 1
    assert places(retention) == [[0, 1, 2], [4]]


def test_what_begins_a_step_is_not_what_the_next_one_begins_with():
    _, retention = retained([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    now = retention.begin_step(tokens=1, coming_tokens=1)
    retention.gate(0, counts(3), (3,))
    assert now[0].nonzero()[0].tolist() == [0, 1, 2]
    now[:] = True
    assert places(retention) == [[1, 2, 3], [3]]


@pytest.mark.parametrize("said", [[1.0] * 5, [[1.0]] * EXPERTS, [np.nan] * EXPERTS, [np.inf] * EXPERTS])
def test_scores_that_are_none_are_refused(said):
    _, retention = retained(said)
    with pytest.raises(ValueError, match="expected 6 finite scores from retention 'said'"):
        retention.gate(0, counts(3), (3,))

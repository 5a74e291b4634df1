"""Which of the two rules that look at the past to take, as validation sequences say."""

from __future__ import annotations

from prescope.formulation.checks import require_finite, require_int

AVERAGE_FROM_TOKENS = 16
AVERAGE_FROM_SHARE = 0.5


def prefers_average(tokens: int, resident_share: float) -> bool:
    """Whether a moving average keeps residents better than the learned model does.

    Large batches use most experts in every step; where half of the experts or more are resident, those at the
    edge of the residents differ so little that the model's noise costs more than what it knows. Chosen on
    validation sequences of gpt-oss-20b, three seeds, both planners of ``benchmarks/residency.py``.

    Parameters
    ----------
    tokens
        Tokens of a step.
    resident_share
        Residents by all experts, in [0, 1].
    """
    require_int("tokens", tokens, 0)
    require_finite("resident_share", resident_share, 0.0)
    return tokens >= AVERAGE_FROM_TOKENS and resident_share >= AVERAGE_FROM_SHARE

"""How long a piece of work takes as a function of its number of tokens."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTime:
    """``fixed_ns + per_token_ns * tokens`` for at least one token, zero for none.

    Parameters
    ----------
    fixed_ns
        Cost paid once however many tokens there are, in nanoseconds.
    per_token_ns
        Cost of each token in nanoseconds; may be fractional, the total is rounded to an integer.
    """

    fixed_ns: int
    per_token_ns: float = 0.0

    def __post_init__(self) -> None:
        require_int("fixed_ns", self.fixed_ns, 0)
        require_finite("per_token_ns", self.per_token_ns, 0.0)

    def __call__(self, tokens: int) -> int:
        """Duration in nanoseconds for ``tokens`` tokens."""
        if tokens <= 0:
            return 0
        return self.fixed_ns + round(self.per_token_ns * tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTime:
    """A measured table, linear between its points.

    Below the first point its value holds (a kernel's floor); beyond the last the slope of the last
    segment continues. Zero tokens cost nothing.

    Parameters
    ----------
    tokens
        Strictly increasing token counts, the first at least 1.
    times_ns
        Duration at each count in nanoseconds, same length.
    """

    tokens: tuple[int, ...]
    times_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        # A list would pass here and fail later, when the curve is hashed.
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "times_ns", tuple(self.times_ns))
        if len(self.tokens) != len(self.times_ns) or not self.tokens:
            raise ValueError(
                "expected as many times_ns as tokens and at least one, "
                f"got {len(self.tokens)} tokens and {len(self.times_ns)} times"
            )
        for low, high in zip((0, *self.tokens), self.tokens, strict=False):
            require_int("tokens", high, low + 1)
        for time_ns in self.times_ns:
            require_int("times_ns", time_ns, 0)

    def __call__(self, tokens: int) -> int:
        """Duration in nanoseconds for ``tokens`` tokens."""
        if tokens <= 0:
            return 0
        if tokens <= self.tokens[0] or len(self.tokens) == 1:
            return self.times_ns[0]
        right = min(bisect_left(self.tokens, tokens), len(self.tokens) - 1)
        x0, x1 = self.tokens[right - 1], self.tokens[right]
        y0, y1 = self.times_ns[right - 1], self.times_ns[right]
        return max(0, y0 + round((y1 - y0) * (tokens - x0) / (x1 - x0)))


TimeCurve = LinearTime | TableTime

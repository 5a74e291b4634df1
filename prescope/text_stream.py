"""Text as it is generated, and when each token came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter_ns
from typing import Any

# What a tokenizer shows for the first bytes of a character whose last ones are still to come.
_INCOMPLETE = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimes:
    """When tokens came; measured, in real time.

    Parameters
    ----------
    prompt_tokens, new_tokens
        Counts.
    prefill_ns
        From the start to the first new token.
    decode_ns
        From there to the last one; ``None`` when there is no second one.
    tokens_per_s
        New tokens per second after the first.
    p50_ns, p99_ns
        Time between two tokens; ``None`` for fewer than three tokens.
    decode_bytes
        Counted after the first token; ``None`` when there is no second one.
    """

    prompt_tokens: int
    new_tokens: int
    prefill_ns: int
    decode_ns: int | None
    tokens_per_s: float | None
    p50_ns: int | None
    p99_ns: int | None
    decode_bytes: int | None

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes counted per token after the first."""
        return None if self.decode_bytes is None else self.decode_bytes / (self.new_tokens - 1)


class TextStream:
    """A streamer for ``model.generate(streamer=...)`` with one row.

    Text is handed on with every token, except while the token ends within a character.

    Parameters
    ----------
    tokenizer
        Decodes the tokens.
    write
        Called with each piece of text.
    count_bytes
        A running total to be read with every token.
    """

    def __init__(
        self, tokenizer: Any, write: Callable[[str], None], *, count_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        self._tokenizer, self._write, self._count_bytes = tokenizer, write, count_bytes
        self._ids: list[int] = []
        self._prompt_tokens = 0
        # Text before _shown is out; decoding starts at _context, because tokens may depend on those before.
        self._context = self._shown = 0
        self._pieces: list[str] = []
        self._marks: list[tuple[int, int]] = []

    @property
    def text(self) -> str:
        """Everything handed on so far."""
        return "".join(self._pieces)

    @property
    def ids(self) -> tuple[int, ...]:
        """The new tokens."""
        return tuple(self._ids)

    def put(self, value: Any) -> None:
        """Take the prompt's tokens (first call), then new ones."""
        ids = [int(token) for token in value.reshape(-1)]
        if not self._marks:
            self._prompt_tokens = len(ids)
        else:
            self._ids += ids
        self._marks.append((perf_counter_ns(), self._count_bytes()))
        self._emit(final=False)

    def end(self) -> None:
        """Hand on what was held back."""
        self._emit(final=True)

    def times(self) -> StreamTimes:
        """Judge the run, once a token has come.

        Raises
        ------
        ValueError
            When none has.
        """
        if len(self._marks) < 2:
            raise ValueError("expected at least one new token, got none")
        start, first, last = self._marks[0], self._marks[1], self._marks[-1]
        moments = [moment for moment, _ in self._marks[1:]]
        gaps = [later - sooner for sooner, later in zip(moments, moments[1:], strict=False)]
        percents = quantiles(gaps, n=100, method="inclusive") if len(gaps) > 1 else None
        decode_ns = last[0] - first[0] if gaps else None
        return StreamTimes(
            prompt_tokens=self._prompt_tokens,
            new_tokens=len(self._ids),
            prefill_ns=first[0] - start[0],
            decode_ns=decode_ns,
            tokens_per_s=len(gaps) * 1e9 / decode_ns if decode_ns else None,
            p50_ns=round(percents[49]) if percents else None,
            p99_ns=round(percents[98]) if percents else None,
            decode_bytes=last[1] - first[1] if gaps else None,
        )

    def _emit(self, *, final: bool) -> None:
        before = self._decode(self._ids[self._context : self._shown])
        text = self._decode(self._ids[self._context :])
        if len(text) <= len(before) or (text.endswith(_INCOMPLETE) and not final):
            return
        piece = text[len(before) :]
        self._context, self._shown = self._shown, len(self._ids)
        self._pieces.append(piece)
        self._write(piece)

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)) if ids else ""

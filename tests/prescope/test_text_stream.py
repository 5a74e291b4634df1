"""Streamed text is the decoded text, with nothing half a character and nothing lost."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import prescope.text_stream
from prescope.text_stream import TextStream


class ByteTokenizer:
    """One token a byte; token 256 is special."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return bytes(token for token in ids if token < 256).decode("utf-8", errors="replace")


def run(ids: list[int]) -> tuple[TextStream, list[str]]:
    pieces: list[str] = []
    stream = TextStream(ByteTokenizer(), pieces.append)
    stream.put(torch.tensor([[7, 8, 9]]))
    for token in ids:
        stream.put(torch.tensor([token]))
    stream.end()
    return stream, pieces


@given(st.text(max_size=30), st.booleans())
def test_pieces_are_whole_characters_and_make_the_text(text: str, ended: bool) -> None:
    stream, pieces = run([*text.encode(), *([256] if ended else [])])
    assert "".join(pieces) == stream.text == text
    assert all(len(piece) == 1 for piece in pieces if "\ufffd" not in text)


def test_what_stays_incomplete_is_shown_at_the_end() -> None:
    stream, pieces = run([*b"ab", 0xE2, 0x82])
    assert stream.text == "ab\ufffd"
    assert pieces == ["a", "b", "\ufffd"]


def test_times_and_bytes_are_counted_from_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100, 1_100, 2_100, 5_100])
    monkeypatch.setattr(prescope.text_stream, "perf_counter_ns", lambda: next(clock))
    read = iter([0, 50, 70, 110])
    stream = TextStream(ByteTokenizer(), lambda piece: None, count_bytes=lambda: next(read))
    stream.put(torch.tensor([[1, 2]]))
    for token in b"abc":
        stream.put(torch.tensor([token]))
    times = stream.times()
    assert (times.prompt_tokens, times.new_tokens) == (2, 3)
    assert (times.prefill_ns, times.decode_ns, times.p50_ns) == (1_000, 4_000, 2_000)
    assert times.p99_ns == pytest.approx(2_980)
    assert times.tokens_per_s == pytest.approx(2 / 4_000e-9)
    assert (times.decode_bytes, times.bytes_per_token) == (60, 30)
    assert stream.ids == tuple(b"abc")


def test_one_token_has_no_rate_and_none_no_times() -> None:
    times = run([65])[0].times()
    assert (times.decode_ns, times.tokens_per_s, times.p50_ns, times.bytes_per_token) == (None,) * 4
    with pytest.raises(ValueError, match="expected at least one new token"):
        run([])[0].times()

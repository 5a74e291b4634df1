"""What ``prescope generate`` says about a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.runtime.plugin.load import Loaded
    from prescope.text_stream import TextStream


def generation_document(
    name: str, loaded: Loaded, stream: TextStream, *, load_ns: int, notes: Sequence[str]
) -> dict[str, Any]:
    """The answer of ``prescope generate --json``; every time is measured.

    Parameters
    ----------
    name
        The model, as the user called it.
    loaded, stream
        The engine and the text, after the run.
    load_ns
        What loading took.
    notes
        Warnings besides those in the engine's report.
    """
    times, report = stream.times(), loaded.engine.report()
    return {
        "model": name,
        "text": stream.text,
        "policy": report.policy,
        "predictor": report.predictor,
        "residency": loaded.engine.settings.residency,
        "costs": loaded.engine.settings.preset,
        "backend": report.backend,
        "expert_memory_bytes": report.expert_memory_bytes,
        "arena_bytes": report.arena_bytes,
        "experts_bytes": loaded.store.size_bytes,
        "load_ns": load_ns,
        "prompt_tokens": times.prompt_tokens,
        "new_tokens": times.new_tokens,
        "prefill_ns": times.prefill_ns,
        "decode_ns": times.decode_ns,
        "tokens_per_s": times.tokens_per_s,
        "token_p50_ns": times.p50_ns,
        "token_p99_ns": times.p99_ns,
        "bytes_per_token": times.bytes_per_token,
        "bytes_read": loaded.store.bytes_read,
        "hit_rate": report.totals("decode").hit_rate,
        "direct": loaded.store.direct,
        "degraded": list(dict.fromkeys([*report.degraded, *notes])),
    }


def generation_summary(document: dict[str, Any]) -> str:
    """The figures of a `generation_document` in a few lines for people."""
    from prescope.formulation import format_bytes

    def known(name: str, form: Callable[[Any], str]) -> str:
        return "-" if document[name] is None else form(document[name])

    rate = known("tokens_per_s", "{:.2f}".format)
    p50, p99 = known("token_p50_ns", _milliseconds), known("token_p99_ns", _milliseconds)
    read = known("bytes_per_token", lambda value: format_bytes(round(value)))
    hits = known("hit_rate", "{:.1%}".format)
    held, whole = format_bytes(document["arena_bytes"]), format_bytes(document["experts_bytes"])
    lines = [
        f"{document['new_tokens']} tokens after {document['prompt_tokens']}: the first after "
        f"{document['prefill_ns'] / 1e9:.2f} s, then {rate} tokens/s (p50 {p50}, p99 {p99})",
        f"{read} read per token, hit rate {hits}; {held} of {whole} of experts in memory; "
        f"policy {document['policy']}, residency {document['residency']}, costs {document['costs']}",
    ]
    return "\n".join(lines)


def _milliseconds(value: float) -> str:
    return f"{value / 1e6:.1f} ms"

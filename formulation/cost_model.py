"""What each piece of work costs on one machine for one model."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation.checks import require_int
from prescope.formulation.time_curves import LinearTime, TableTime, TimeCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A copy path from where the weights rest to the device.

    Parameters
    ----------
    bytes_per_s
        Bandwidth in bytes per second.
    latency_ns
        Time before the first byte of every copy, in nanoseconds.
    """

    bytes_per_s: int
    latency_ns: int = 0

    def __post_init__(self) -> None:
        require_int("bytes_per_s", self.bytes_per_s, 1)
        require_int("latency_ns", self.latency_ns, 0)

    def copy_ns(self, size_bytes: int) -> int:
        """Duration of one copy of ``size_bytes`` bytes in nanoseconds, rounded up."""
        return self.latency_ns + -(-size_bytes * 10**9 // self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Durations of every operation of a Mixture-of-Experts step, layer by layer.

    The tuples of curves hold one entry per MoE layer, or a single entry that serves all layers.

    Parameters
    ----------
    expert_bytes
        Bytes of one expert, per layer (their number is the number of layers).
    link
        The copy path from the host to the device.
    gpu
        Time of one expert on the device ("gpu" lane) against its tokens.
    cpu
        Time of one expert computed in place on the host against its tokens.
    dense
        Time of a layer's work before its gate (attention, router, shared experts) against the
        batch's tokens.
    source
        Where the figures come from: a preset's name, or the measurement that made them.
    """

    expert_bytes: tuple[int, ...]
    link: Link
    gpu: tuple[TimeCurve, ...]
    cpu: tuple[TimeCurve, ...]
    dense: tuple[TimeCurve, ...]
    source: str = field(default="unnamed")

    def __post_init__(self) -> None:
        for name in ("expert_bytes", "gpu", "cpu", "dense"):
            # A list would pass here and fail later, when the costs are hashed.
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.expert_bytes:
            raise ValueError("expected expert_bytes for at least one layer, got none")
        for size in self.expert_bytes:
            require_int("expert_bytes", size, 1)
        for name, curves in (("gpu", self.gpu), ("cpu", self.cpu), ("dense", self.dense)):
            if len(curves) not in (1, self.layers):
                raise ValueError(f"expected 1 or {self.layers} curves for {name}, got {len(curves)}")
            for curve in curves:
                if not isinstance(curve, (LinearTime, TableTime)):
                    raise ValueError(f"expected {name} to hold time curves, got {type(curve).__name__}")

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return len(self.expert_bytes)

    def gpu_ns(self, layer: int, tokens: int) -> int:
        """Time of one expert of ``layer`` with ``tokens`` tokens on the device."""
        return self.gpu[layer % len(self.gpu)](tokens)

    def cpu_ns(self, layer: int, tokens: int) -> int:
        """Time of one expert of ``layer`` with ``tokens`` tokens computed in place on the host."""
        return self.cpu[layer % len(self.cpu)](tokens)

    def dense_ns(self, layer: int, batch_tokens: int) -> int:
        """Time from the start of ``layer`` to its gate for a batch of ``batch_tokens`` tokens."""
        return self.dense[layer % len(self.dense)](batch_tokens)

    def copy_ns(self, layer: int) -> int:
        """Time to bring one expert of ``layer`` to the device."""
        return self.link.copy_ns(self.expert_bytes[layer])

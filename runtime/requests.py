"""What a decision must look like before anything is built from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from prescope.runtime._contents import Held
from prescope.runtime.errors import PlanError


class CopyRequest(NamedTuple):
    """One expert to bring into one slot."""

    layer: int
    expert: int
    slot: int


class ExpertWork(NamedTuple):
    """One expert to compute with its number of tokens."""

    expert: int
    tokens: int


def check_residents(residents: Sequence[Sequence[int]], *, layers: int, experts: int) -> None:
    """Refuse residents of another shape."""
    if len(residents) != layers:
        raise PlanError(f"expected residents for {layers} layers, got {len(residents)}")
    for layer, row in enumerate(residents):
        for expert in row:
            if not 0 <= expert < experts:
                raise PlanError(f"expected residents in [0, {experts - 1}], got {expert} in layer {layer}")


def check_computes(
    layer: int,
    gpu: Sequence[tuple[int, int]],
    cpu: Sequence[tuple[int, int]],
    *,
    experts: int,
    host_computes: bool,
) -> None:
    """Refuse unknown experts, those computed twice, and host work where the host cannot compute."""
    seen: set[int] = set()
    for expert, _ in (*gpu, *cpu):
        if not 0 <= expert < experts:
            raise PlanError(f"expected an expert in [0, {experts - 1}], got {expert} in layer {layer}")
        if expert in seen:
            raise PlanError(f"expected each expert once in layer {layer}, got {expert} again")
        seen.add(expert)
    if cpu and not host_computes:
        raise PlanError(
            f"expected no work on the host, which cannot compute, got {len(cpu)} in layer {layer}"
        )


def describe_copy(wave: int, copy: CopyRequest) -> str:
    """Text for messages."""
    return f"the copy of layer {copy.layer} expert {copy.expert} to slot {copy.slot} at gate {wave}"


def check_copy(copy: CopyRequest, where: str, *, earliest: int, shape: tuple[int, int, int]) -> None:
    """Refuse a copy of or to what does not exist; ``shape`` is layers, experts and slots."""
    layers, experts, slots = shape
    if not earliest <= copy.layer < layers:
        raise PlanError(f"expected a layer in [{earliest}, {layers - 1}], got {where}")
    if not 0 <= copy.expert < experts:
        raise PlanError(f"expected an expert in [0, {experts - 1}], got {where}")
    if not 0 <= copy.slot < slots:
        raise PlanError(f"expected one of {slots} slots, got {where}")


def check_free(held: Held | None, wave: int, needed: Collection[int], where: str) -> None:
    """Refuse a slot whose expert is still to be computed, at this gate or a later one."""
    if held is None:
        return
    waits = held.layer > wave and held.copy is not None
    if waits or (held.layer == wave and held.expert in needed):
        raise PlanError(
            f"expected a slot that is free by then, got {where} while it holds layer {held.layer} "
            f"expert {held.expert}, not yet computed"
        )

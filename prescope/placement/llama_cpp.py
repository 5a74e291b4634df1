"""Whole layers as arguments of llama.cpp.

Its weights hold the experts of a layer in one tensor each for up, gate and down projections, so that a
layer's experts are on the device together or not at all. ``--n-cpu-moe N`` keeps those of the first ``N``
blocks on the CPU, ``--override-tensor`` those whose names match.
"""

from __future__ import annotations

from typing import Any

from prescope.placement.hot_list import HotList


def llama_cpp_document(hot: HotList, *, dense_layers: int = 0) -> dict[str, Any]:
    """Arguments for a placement of whole layers, ready for JSON.

    Parameters
    ----------
    hot
        The placement of the MoE layers; every layer all or nothing.
    dense_layers
        Blocks without experts before the first one with experts.

    Raises
    ------
    ValueError
        When a layer is on the device in part, or ``dense_layers`` is negative.
    """
    if dense_layers < 0:
        raise ValueError(f"expected a number of dense layers >= 0, got {dense_layers}")
    whole = [bool(row.all()) for row in hot.mask]
    if whole != [bool(row.any()) for row in hot.mask]:
        raise ValueError("expected whole layers, got a layer with some of its experts on the device")
    host = [dense_layers + layer for layer in range(len(whole)) if not whole[layer]]
    first = not host or host == list(range(dense_layers, dense_layers + len(host)))
    return {
        "cpu_blocks": host,
        "n_cpu_moe": (dense_layers + len(host) if host else 0) if first else None,
        "arguments": _arguments(host, dense_layers + len(host) if first and host else None),
        "override_tensor": override_of(host) if host else None,
    }


def override_of(blocks: list[int]) -> str:
    """Value of ``--override-tensor`` that keeps the experts of some blocks on the CPU."""
    alternatives = "|".join(str(block) for block in blocks)
    return rf"blk\.({alternatives})\.ffn_(up|down|gate|gate_up)_exps=CPU"


def _arguments(host: list[int], leading: int | None) -> list[str]:
    if not host:
        return ["--n-gpu-layers", "999"]
    if leading is not None:
        return ["--n-gpu-layers", "999", "--n-cpu-moe", str(leading)]
    return ["--n-gpu-layers", "999", "--override-tensor", override_of(host)]


def llama_cpp_losses(hot: HotList, finer: HotList) -> list[str]:
    """What llama.cpp cannot be told, in words.

    Parameters
    ----------
    hot
        The placement of whole layers.
    finer
        The hottest experts in the same memory.
    """
    return [
        f"whole layers catch {hot.covered:.1%} of the recorded activations; the hottest {finer.experts} "
        f"experts, wherever they are, would catch {finer.covered:.1%}",
        "experts stay where they are: no prefetch, no copy on demand; layers off the device run on the CPU",
    ]

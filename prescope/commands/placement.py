"""``prescope placement``: a fixed placement of experts for another engine."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.placement import HotList
    from prescope.placement.hot_list import IntArray


class Target(StrEnum):
    """Engines that can be told where experts are."""

    KTRANSFORMERS = "ktransformers"
    LLAMA_CPP = "llama.cpp"


def placement(
    source: Annotated[
        str, typer.Argument(help="Recorded routing (.npz), an instance file or its library name.")
    ],
    engine: Annotated[Target, typer.Option(help="Who shall use it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write (.json).")],
    per_layer: Annotated[int | None, typer.Option(min=0, help="Experts of each layer on the device.")] = None,
    share: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share of the experts on the device.")
    ] = None,
    expert_memory: Annotated[
        str | None, typer.Option(help="Memory for experts on the device, such as 8GiB; needs --expert-size.")
    ] = None,
    expert_size: Annotated[
        str | None, typer.Option(help="Size of one expert, such as 9MiB, or the name of a published model.")
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="The hottest of all layers together, not as many of each.")
    ] = False,
    dense_layers: Annotated[
        int, typer.Option(min=0, help="Layers without experts before the first with experts.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Write which experts stay on the device, as KTransformers' mask or llama.cpp's arguments.

    An instance brings its own residents; recorded routing needs a limit.
    """
    from prescope.commands.output import console, print_json
    from prescope.instances._atomic import atomic_file
    from prescope.placement import (
        hottest_of_all,
        ktransformers_document,
        ktransformers_losses,
        llama_cpp_document,
        llama_cpp_losses,
        whole_layers,
    )
    from prescope.report import pairs_table

    if output.suffix != ".json":
        raise ValueError(f"expected an output name ending in .json, got {output}")
    hot = _hot_list(source, per_layer, share, _fitting(expert_memory, expert_size), anywhere)
    if engine is Target.KTRANSFORMERS:
        written, losses = ktransformers_document(hot, dense_layers=dense_layers), ktransformers_losses(hot)
    else:
        finer = hottest_of_all(hot.activations, hot.experts)
        hot = whole_layers(hot.activations, hot.experts)
        written, losses = llama_cpp_document(hot, dense_layers=dense_layers), llama_cpp_losses(hot, finer)
    document = {"engine": engine.value, "source": source, **written, "lost": losses}
    with atomic_file(output) as stream:
        stream.write((json.dumps(document, indent=None, separators=(",", ":")) + "\n").encode())
    answer: dict[str, Any] = {
        "engine": engine.value,
        "source": source,
        "path": str(output),
        "layers": int(hot.mask.shape[0]),
        "experts": int(hot.mask.shape[1]),
        "experts_on_device": hot.experts,
        "covered": hot.covered,
        "arguments": written.get("arguments"),
        "lost": losses,
    }
    if as_json:
        print_json(answer)
        return
    rows = [
        ("source", source),
        ("on the device", f"{hot.experts} of {hot.mask.size} experts"),
        ("activations caught", f"{hot.covered:.1%}"),
    ]
    if written.get("arguments"):
        rows.append(("arguments", shlex.join(written["arguments"])))
    out = console()
    out.print(pairs_table([*rows, ("file", str(output))]))
    for loss in losses:
        out.print(f"lost: {loss}", markup=False, soft_wrap=True)


def _hot_list(
    source: str, per_layer: int | None, share: float | None, fitting: int | None, anywhere: bool
) -> HotList:
    from prescope.placement import HotList, hottest_of_all, hottest_of_each_layer

    activations, residents = _open(source)
    limits = [limit for limit in (per_layer, share, fitting) if limit is not None]
    if residents is not None and not limits and not anywhere:
        import numpy as np

        mask = np.zeros(activations.shape, dtype=np.bool_)
        for layer, row in enumerate(residents):
            mask[layer, list(row)] = True
        return HotList(mask=mask, activations=activations)
    if len(limits) != 1:
        raise ValueError(
            f"expected one of --per-layer, --share, --expert-memory for {source}, got {len(limits)} of them"
        )
    layers, experts = activations.shape
    if per_layer is not None:
        most = per_layer * layers
    elif share is not None:
        most = int(share * activations.size + 1e-9)
    else:
        most = min(fitting or 0, activations.size)
    if anywhere:
        return hottest_of_all(activations, most)
    return hottest_of_each_layer(activations, most // layers)


def _open(source: str) -> tuple[IntArray, tuple[tuple[int, ...], ...] | None]:
    if source.endswith(".npz"):
        from prescope.instances import read_trace
        from prescope.instances.batches import activations

        return activations(read_trace(source)), None
    from prescope.commands.sources import open_instance

    instance = open_instance(source).instance
    return instance.demand.counts, instance.residents


def _fitting(memory: str | None, size: str | None) -> int | None:
    """How many experts fit, where memory was given."""
    if memory is None:
        if size is not None:
            raise ValueError("expected --expert-memory beside --expert-size, got --expert-size alone")
        return None
    if size is None:
        raise ValueError(f"expected --expert-size beside --expert-memory {memory}, got none")
    from prescope.formulation.presets import model_names, model_shape
    from prescope.formulation.units import parse_bytes

    try:
        size_bytes = model_shape(size).expert_bytes if size in model_names() else parse_bytes(size)
    except ValueError as error:
        raise ValueError(
            f"expected --expert-size as a size or the name of a model ({', '.join(model_names())}), "
            f"got {size!r}"
        ) from error
    if size_bytes < 1:
        raise ValueError(f"expected --expert-size of at least one byte, got {size!r}")
    return parse_bytes(memory) // size_bytes

"""Compact models of a batch: per layer a number of copies, not who is copied.

Variables: the start ``T[l]`` of each layer (``T[L]`` is minimised), and for the link ``F[l]``, when it can
have done all copies up to layer ``l``, and ``C[l]``, when it can go on after that. With the functions of
`prescope.formulation.models.layer_functions` at ``m[l]`` copies:

- work: ``T[l+1] >= T[l] + table``;
- link: ``F[l] >= C[l-1] + P m`` and, with lookahead ``w``, release: ``F[l] >= T[l-w] + dense[l-w] + P m``;
- land: ``T[l+1] >= F[l] + tail``;
- carry: ``C[l] >= F[l] + carry``, opened: ``C[l] >= T[l] + opened``.

Two forms: `Form.TABLE` chooses ``m`` by binaries ``z[l,m]`` (every function exact at every ``m``; its LP
relaxation is their joint convex envelope); `Form.FLUID` has one column ``m`` and the lower convex envelope of
each function.

**Why the optimum is a lower bound** (`Tables.BOUND`, either form, also without integrality). Take any plan,
without wasted copies, which only delay. Its starts and numbers of copies, with the least ``F`` and ``C``,
satisfy the rows, whatever its link order and sizes. *work*: the host cannot do better with the cheapest
experts left to it, nor the device. *link, release, land*: let ``S`` be its copies for layers ``a..l``, all
released at the gate of ``a - w`` (or at the start, ``a = 0``). All land before ``T[l+1]``, so the last lands
at or after that gate plus their total link time. If the last ``r`` on the link are layer ``l``'s, the ``r``
device computations follow the landing of the first of them; if fewer are, the copy before those was of an
earlier layer, which ends, and then all of layer ``l``'s device work follows. Either way ``T[l+1]`` is at
least the bound plus ``r`` device times less ``r - 1`` copy times. *opened*: see `layer_functions`; let ``S``
be the copies for layers ``l..j``, ``j > l``, of which all but the first ``B + r - 1`` begin after that
moment, and argue as before; if there are no more than that, the row says less than ``T[j+1] >= T[l+1]`` plus
the device work of ``j``. *carry*: with one slot copies and their device work alternate. Fewer copies than the
table's least are enough because all other functions grow with ``m``. Prediction work on the host is left out,
which only relaxes.

**What is exact.** With as many slots as copies, equal device times within each layer, no prediction work and
copies in layer order the table form is the problem itself. Slots are otherwise relaxed: the rows know when
slots are freed at the earliest, not which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.models.envelope import lower_envelope
from prescope.formulation.models.layer_functions import LayerFunctions
from prescope.formulation.models.linear_model import UNLIMITED, LinearModel, LinearModelBuilder


class Form(StrEnum):
    """How the functions of the number of copies are expressed."""

    TABLE = "table"
    FLUID = "fluid"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompactModel:
    """A compact model and where to find its columns.

    Parameters
    ----------
    form
        Which.
    linear
        The model.
    width
        Per layer, the largest number of copies it has room for.
    copies
        Per layer, the columns that say how many copies: ``z[l,0..width]``, or the single ``m``.
    starts, landed, carried
        Columns ``T[0..L]``, ``F[0..L-1]``, ``C[0..L-1]``.
    """

    form: Form
    linear: LinearModel
    width: tuple[int, ...]
    copies: tuple[range, ...]
    starts: range
    landed: range
    carried: range


def compact_model(
    functions: Sequence[LayerFunctions],
    *,
    form: Form,
    lookahead: int,
    link_ready_ns: int,
    horizon_ns: int,
    width: Sequence[int] | None = None,
    name: str = "batch",
) -> CompactModel:
    """Build a model.

    Parameters
    ----------
    functions
        Of every layer.
    form
        Table or fluid.
    lookahead, link_ready_ns
        As in the instance.
    horizon_ns
        Starts beyond it are not considered: at least the model's own value of some numbers of copies
        (`prescope.formulation.models.copy_counts.schedule_counts`).
    width
        Room for so many copies per layer, at least ``most``; columns beyond ``most`` are fixed at zero.
        Models with the same width, lookahead and form differ in numbers only.
    name
        Of the instance.
    """
    layers = len(functions)
    room = tuple(one.most for one in functions) if width is None else tuple(width)
    for layer, one in enumerate(functions):
        if room[layer] < one.most:
            raise ValueError(f"expected width >= {one.most} in layer {layer}, got {room[layer]}")
    builder = LinearModelBuilder(name=name)
    for layer in range(layers + 1):
        builder.column(f"T{layer}", 0, 0 if layer == 0 else horizon_ns, time=True)
    slack = max(max(int(one.carry_ns.max()), int(one.opened_ns.max()), 0) for one in functions)
    # Without copies nobody waits for the link, which may then be busy beyond the horizon.
    latest = horizon_ns + link_ready_ns
    for layer in range(layers):
        builder.column(f"F{layer}", 0, latest, time=True)
    for layer in range(layers):
        builder.column(f"C{layer}", 0, latest + slack, time=True)
    starts = range(layers + 1)
    landed, carried = range(layers + 1, 2 * layers + 1), range(2 * layers + 1, 3 * layers + 1)
    copies = []
    for layer, one in enumerate(functions):
        if form is Form.TABLE:
            choices = [
                builder.column(f"z{layer}_{count}", 0, int(one.least <= count <= one.most), integer=True)
                for count in range(room[layer] + 1)
            ]
            copies.append(range(choices[0], choices[-1] + 1))
            builder.row(f"one{layer}", [(choice, 1) for choice in choices], 1, 1)
        else:
            column = builder.column(f"m{layer}", one.least, one.most, integer=True)
            copies.append(range(column, column + 1))
    for layer, one in enumerate(functions):
        add = _TableRows if form is Form.TABLE else _FluidRows
        rows = add(builder, one, room[layer], copies[layer])
        start, end, done, later = layer, layer + 1, landed[layer], carried[layer]
        link = one.copy_ns * np.arange(one.most + 1, dtype=np.int64)
        rows.add(f"work{layer}", end, start, one.table_ns)
        before = carried[layer - 1] if layer > 0 else None
        rows.add(f"link{layer}", done, before, link, constant=link_ready_ns if layer == 0 else 0)
        if layer >= lookahead:
            released = layer - lookahead
            rows.add(f"release{layer}", done, released, link, constant=functions[released].dense_ns)
        rows.add(f"land{layer}", end, done, one.tail_ns)
        rows.add(f"carry{layer}", later, done, one.carry_ns)
        rows.add(f"opened{layer}", later, start, one.opened_ns)
    return CompactModel(
        form=form,
        linear=builder.build(minimise=layers),
        width=room,
        copies=tuple(copies),
        starts=starts,
        landed=landed,
        carried=carried,
    )


@dataclass(frozen=True, slots=True)
class _TableRows:
    """Rows ``after - before >= constant + sum_m function[m] z[m]``."""

    builder: LinearModelBuilder
    one: LayerFunctions
    width: int
    choices: range

    def add(self, name: str, after: int, before: int | None, function: IntArray, constant: int = 0) -> None:
        """One row."""
        terms = [(after, 1)]
        if before is not None:
            terms.append((before, -1))
        for count, column in enumerate(self.choices):
            inside = self.one.least <= count <= self.one.most
            terms.append((column, -int(function[count]) if inside else 0))
        self.builder.row(name, terms, constant, UNLIMITED)


@dataclass(frozen=True, slots=True)
class _FluidRows:
    """Rows ``after - before >= constant + line(m)`` for each line of the function's lower envelope."""

    builder: LinearModelBuilder
    one: LayerFunctions
    width: int
    choices: range

    def add(self, name: str, after: int, before: int | None, function: IntArray, constant: int = 0) -> None:
        """As many rows as a function of this width may need; what is left over repeats the last."""
        least, most = self.one.least, self.one.most
        lines = lower_envelope(function[least : most + 1], least)
        for number in range(max(self.width, 1)):
            run, rise, offset = lines[min(number, len(lines) - 1)]
            terms = [(after, run)]
            if before is not None:
                terms.append((before, -run))
            terms.append((self.choices[0], -rise))
            self.builder.row(f"{name}_{number}", terms, run * constant + offset, UNLIMITED)

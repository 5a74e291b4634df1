"""Parts of a sum as bars of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from prescope.formulation import format_ns
from prescope.inspection.spent import Part

if TYPE_CHECKING:
    from rich.text import Text

_LEAST_BAR = 8


def bars(
    parts: Sequence[Part],
    *,
    width: int,
    colour: bool = False,
    falling: bool = False,
    styles: Mapping[str, str] | None = None,
) -> Text:
    """Draw one line per part: name, length, share of the sum, bar.

    Parameters
    ----------
    parts
        What adds up; none of a step that took no time.
    width
        Columns to use.
    colour
        Blocks instead of ``#``.
    falling
        Every bar begins where the one before ended: a waterfall.
    styles
        Of the bars by the names of their parts, where there are colours.
    """
    from rich.text import Text

    total = sum(part.ns for part in parts)
    names = max((len(part.name) for part in parts), default=0)
    # The sum below them may be the longest.
    lengths = max(len(format_ns(ns)) for ns in (total, *(part.ns for part in parts)))
    room = max(width - names - lengths - 12, _LEAST_BAR)
    # A difference may be negative: what lies before it then reaches beyond the sum.
    tops = [sum(part.ns for part in parts[: number + 1]) for number in range(len(parts))]
    scale = max(total, *tops, 1)
    text = Text(no_wrap=True, overflow="crop")
    at = 0
    for part in parts:
        begin, end = sorted((at, at + part.ns)) if falling else (0, abs(part.ns))
        left = round(begin * room / scale)
        columns = max(round(end * room / scale) - left, 1 if part.ns else 0)
        at += part.ns
        share = f"{part.ns / total:.1%}" if total else "-"
        line = f"{part.name:<{names}}  {format_ns(part.ns):>{lengths}}  {share:>6}  "
        mark = "█" if colour else "#"
        bar = (mark if part.ns >= 0 else "-") * columns
        text.append((line + " " * left) if bar else line.rstrip())
        text.append(bar, style=(styles or {}).get(part.name, "") if colour else "")
        text.append("\n")
    text.append(f"{'':<{names}}  {format_ns(total):>{lengths}}  {'100 %' if total else '':>6}")
    return text

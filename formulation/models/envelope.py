"""The lower convex envelope of a function on consecutive integers, in whole numbers."""

from __future__ import annotations

from prescope.formulation.demand import IntArray


def lower_envelope(values: IntArray, first: int = 0) -> list[tuple[int, int, int]]:
    """Lines ``run * y = rise * x + offset`` below the points ``(first + i, values[i])``.

    Parameters
    ----------
    values
        The function, int64, at least one point.
    first
        Where it begins.

    Returns
    -------
    list of (run, rise, offset)
        From left to right, ``run >= 1``; their maximum is the largest convex function below the points. A
        single point gives one horizontal line.
    """
    corners: list[tuple[int, int]] = []
    for x, y in enumerate(values.tolist(), start=first):
        while len(corners) >= 2:
            (x0, y0), (x1, y1) = corners[-2:]
            # The middle corner goes unless it lies below the line from the first to the new point.
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            corners.pop()
        corners.append((x, y))
    if len(corners) == 1:
        return [(1, 0, corners[0][1])]
    lines = []
    for (x0, y0), (x1, y1) in zip(corners, corners[1:], strict=False):
        run, rise = x1 - x0, y1 - y0
        lines.append((run, rise, run * y0 - rise * x0))
    return lines

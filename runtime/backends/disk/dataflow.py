"""All waits of an operation, named one by one, for lanes that do not keep their order."""

from __future__ import annotations

from prescope.runtime.backends._node import Node

# Every expert has a buffer of its own among the outputs, so those who write them do not wait for each other.
_OUTPUTS = ("output.gpu", "output.cpu")


class Dataflow:
    """Who wrote and who reads each location, across steps.

    A program leaves out every wait that the order of a stream implies. Where reads of a disk end as they
    please and computations overtake each other, those waits are needed: whoever reads a location waits for
    all that wrote it, and whoever writes it anew also for all that read it, in the order of issue. What
    results is the same as one operation after the other.
    """

    def __init__(self) -> None:
        self._writers: dict[str, list[Node]] = {}
        self._readers: dict[str, list[Node]] = {}

    def enter(self, node: Node) -> None:
        """Take the next operation in issue order and complete its waits."""
        op = node.op
        waits = dict.fromkeys(node.waits)
        for place in op.reads:
            waits.update(dict.fromkeys(self._writers.get(place, ())))
        for place in op.writes:
            waits.update(dict.fromkeys(self._readers.get(place, ())))
            if place not in _OUTPUTS:
                waits.update(dict.fromkeys(self._writers.get(place, ())))
        node.waits = tuple(wait for wait in waits if not wait.final)
        for place in op.reads:
            self._readers[place] = [*_open(self._readers, place), node]
        for place in op.writes:
            self._writers[place] = [*(_open(self._writers, place) if place in _OUTPUTS else ()), node]
            self._readers.pop(place, None)


def _open(nodes: dict[str, list[Node]], place: str) -> list[Node]:
    """Those that are not over; the rest is forgotten, as a location may be read for ever."""
    return [node for node in nodes.get(place, ()) if not node.final]

"""How fast the rail reads experts now."""

from __future__ import annotations

import random
import threading
from time import perf_counter
from typing import Any


def rail_gb_s(store: Any, *, reads: int = 48, depths: tuple[int, ...] = (1, 2, 4)) -> float:
    """Best speed over some depths of reading random experts into slots, in 10^9 bytes per second."""
    slots = store.new_slots(max(depths))
    slots.fill_(0)
    speeds = []
    for depth in depths:
        left = [
            (random.Random(index).randrange(store.layers), random.Random(~index).randrange(store.experts))
            for index in range(reads)
        ]

        def work(thread: int, left: list[tuple[int, int]] = left) -> None:
            while True:
                try:
                    layer, expert = left.pop()
                except IndexError:
                    return
                store.read(layer, expert, store.place(layer, expert, slots[thread]))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(depth)]
        began = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        speeds.append(reads * store.row_bytes(0) / (perf_counter() - began) / 1e9)
    return max(speeds)

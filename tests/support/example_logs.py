"""Small routing logs of both kinds, with comments, sizes, and entries that are not there."""

from __future__ import annotations

import json
from typing import Any

CSV = """\
# route_trace v1
# a comment without a colon
# model: small
# experts: 8
# top_k: 2
# layers: 2
turn,phase,step,layer,slot,expert,weight,expert_bytes
0,0,0,0,0,3,0.75,100
0,0,0,0,1,5,0.25,0
0,0,0,1,0,1,0.5,200
0,0,0,1,1,7,0.5,200
0,1,1,0,0,2,1,100
0,1,1,0,1,3,0,100
"""
JSONL: list[dict[str, Any]] = [
    {"format": "prescope-routing-log", "version": 1, "model": "small", "experts": 8, "top_k": 2, "layers": 2},
    {"forward": 0, "layer": 0, "phase": "prefill", "sequences": [0, 0, 1], "ids": [[3, 5], [1, 2], [0, 7]]},
    {"forward": 0, "layer": 1, "rows": [1, 2], "ids": [[4, 3], [6, 5]]},
    {"forward": 1, "layer": 0, "phase": "decode", "sequences": [1, 0], "ids": [[1, 0], [2, -1]]},
    {"forward": 1, "layer": 1, "sequences": [1, 0], "ids": [[7, 6], [5, 4]]},
]


def lines(records: list[Any]) -> str:
    """Records as the lines of a log."""
    return "".join(json.dumps(record) + "\n" for record in records)

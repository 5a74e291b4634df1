"""What a file may hold at most: generous for any real model, while a hostile file costs little."""

MAX_FILE_BYTES = 16 * 2**20
"""Bytes of a JSON file on disk."""

MAX_TEXT_BYTES = 64 * 2**20
"""Bytes of a JSON file after decompression."""

MAX_VALUES = 4 * 2**20
"""Values in a JSON file, counted by its commas before anything is allocated for them."""

MAX_LAYERS = 1024
"""MoE layers."""

MAX_EXPERTS = 8192
"""Experts per layer."""

MAX_HORIZONS = 64
"""Horizons of a prediction."""

MAX_TOKENS = 2**31
"""Tokens of a batch."""

MAX_BYTES = 2**50
"""Bytes of an expert, and bytes per second of a link."""

MAX_NS = 10**15
"""A single duration: eleven days."""

MAX_TOTAL_NS = 2**62
"""Everything an instance could do in a row: sums of durations must fit 64 bits."""

MAX_NAME = 200
"""Characters of a name."""

MAX_NOTE = 10_000
"""Characters of a free text."""

MAX_TRACE_BYTES = 4 * 2**30
"""Bytes of a routing trace's arrays after decompression."""

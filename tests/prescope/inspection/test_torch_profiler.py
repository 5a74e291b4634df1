"""A real generation under torch.profiler: both files tell the same time."""

import json
from pathlib import Path

import torch
from tiny_models import random_model
from torch.profiler import ProfilerActivity, profile

from prescope.inspection import recorded_view
from prescope.inspection.perfetto import write_perfetto
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.plugin import attach


def test_executed_operations_lie_among_the_profilers(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = random_model()
    tokens = torch.arange(6).reshape(2, 3)
    slow = CpuOptions(dilation=20.0)
    with attach(model, 60_000, policy="dp", backend="cpu", backend_options=slow) as engine:
        with torch.no_grad():
            # Whatever is loaded or compiled first does not belong into the profile.
            model(input_ids=tokens)
        with profile(activities=[ProfilerActivity.CPU]) as profiler, torch.no_grad():
            model(input_ids=tokens)
            model(input_ids=tokens)
        steps = [recorded_view(step) for step in engine.recording().steps[1:]]
    profiler.export_chrome_trace(str(tmp_path / "profile.json"))
    write_perfetto(tmp_path / "both.json", steps, profile=tmp_path / "profile.json")
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    slices = [event for event in events if event.get("ph") == "X"]
    ours = [event for event in slices if event["pid"] == 10**8 + 2]
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"][-1] == "executed"
    (whole,) = (event for event in slices if event["name"].startswith("PyTorch Profiler"))
    # A millisecond covers what the clocks are apart.
    assert whole["ts"] - 1e3 < min(event["ts"] for event in ours)
    assert max(event["ts"] + event["dur"] for event in ours) < whole["ts"] + whole["dur"] + 1e3
    starts = [event["ts"] for event in slices if event.get("cat") == "cpu_op"]
    # The dense part of every layer is the caller's own torch code: operations run within it.
    for event in ours:
        if event["cat"] == "dense":
            first, last = event["ts"] - 50, event["ts"] + event["dur"] + 50
            assert any(first <= start <= last for start in starts), event

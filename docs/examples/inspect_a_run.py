"""Use 3: record a run, ask where the time of its slowest step went, and draw it.

python docs/examples/inspect_a_run.py
"""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import prescope
from prescope import plots
from prescope.inspection import open_view, step_of, waterfall
from prescope.page import write_page
from prescope.tiny import load_tiny, prompts, tiny_llapor_path

model, tokenizer = load_tiny()
batch = tokenizer(prompts(2), return_tensors="pt", padding=True)
with prescope.attach(
    model,
    "7MiB",
    policy="expected",
    predictor=f"llapor:{tiny_llapor_path()}",
    backend="sim",
    preset="qwen3-30b-a3b@a100-pcie4",
) as engine:
    model.generate(**batch, max_new_tokens=8, do_sample=False)
    engine.write_recording("run.json.gz")

view = open_view("run.json.gz")
step = step_of(view)  # the slowest
for part in waterfall(step).parts:
    print(f"{part.name:24} {part.ns / 1e6:8.3f} ms   {part.about}")

figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
plots.draw_step_times(view, ax=axes[0, 0])
plots.draw_waterfall(step, ax=axes[0, 1])
plots.draw_utilisation(step, ax=axes[1, 0])
plots.draw_residency(view, ax=axes[1, 1])
figure.savefig("run.png", dpi=100)
write_page(view, "run.html")  # zoom, pan and tables, in any browser, without a network

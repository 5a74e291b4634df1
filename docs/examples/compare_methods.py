"""Use 1: plan saved instances with several methods and draw what they do differently.

python docs/examples/compare_methods.py [PICTURE.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import prescope
from prescope.instances import load_library_instance
from prescope.report.picture import draw_schedule, legend_handles

METHODS = ("intra-layer", "presched", "dp")

instance = load_library_instance("qwen3-30b-a3b@a100-pcie4-b1-s0").instance
figure, axes = plt.subplots(len(METHODS), figsize=(9, 4.5), sharex=True, layout="constrained")
for method, ax in zip(METHODS, axes, strict=True):
    result = prescope.solve(instance, method=method)
    schedule = prescope.evaluate(instance, result.plan)
    draw_schedule(schedule, ax=ax, layers=(0, 7))
    ax.set_title(f"{method}: {result.makespan_ns / 1e6:.2f} ms, at most {result.gap:.2%} above the optimum")
    print(f"{method:12} {result.makespan_ns / 1e6:7.2f} ms {result.gap:8.2%}")
figure.legend(handles=legend_handles(), loc="outside lower center", ncols=4, fontsize="small")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "methods.png", dpi=100)

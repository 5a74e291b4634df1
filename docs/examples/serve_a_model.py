"""Use 2: generate with 30 % of the experts on the (simulated) device, the tokens of the model alone.

python docs/examples/serve_a_model.py
"""

from __future__ import annotations

import prescope
from prescope.tiny import load_tiny, prompts, tiny_llapor_path

model, tokenizer = load_tiny()  # any Qwen3-MoE, Mixtral or OLMoE model of transformers
batch = tokenizer(prompts(2), return_tensors="pt", padding=True)
alone = model.generate(**batch, max_new_tokens=6, do_sample=False)

for policy in ("presched", "expected"):
    with prescope.attach(
        model,
        "7MiB",
        policy=policy,
        predictor=f"llapor:{tiny_llapor_path()}",
        backend="sim",
        preset="qwen3-30b-a3b@a100-pcie4",
    ) as engine:
        plugged = model.generate(**batch, max_new_tokens=6, do_sample=False)
        totals = engine.report().totals()
    assert (plugged == alone).all(), "the plug-in must not change the output"
    print(f"{policy:10} {totals.simulated_ns / 1e6:7.2f} ms simulated, {totals.hit_rate:.0%} there in time")

"""`expert_memory` is a hard promise, by the process's own accounting of its peak resident set."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Buffers for reads in flight, page tables, the allocator's slack: what the documentation states. Libraries
# and compiled planners, which a process loads once whatever it serves, are not in it.
STATED_CONSTANT_BYTES = 64 * 2**20

_WRITE = """
import sys, torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
torch.manual_seed(0)
layers, width = int(sys.argv[2]), int(sys.argv[3])
config = Qwen3MoeConfig(
    hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    vocab_size=256, num_experts=32, num_experts_per_tok=4, moe_intermediate_size=width,
    intermediate_size=width,
    eos_token_id=5, pad_token_id=0,
)
Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1], max_shard_size="60MB")
"""

_SERVE = """
import json, sys, torch
import transformers.models.qwen3_moe.modeling_qwen3_moe
import prescope.solver.online
from prescope.runtime.plugin.load import load

def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

def serve(loaded):
    ids = torch.randint(6, 256, (4, 16), generator=torch.Generator().manual_seed(0))
    loaded.model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
    )
    return loaded.engine.report()

torch.set_num_threads(1)
with load(sys.argv[1], "1MiB", policy="dp") as loaded:
    serve(loaded)
before = status("VmRSS")
with load(sys.argv[2], "24MiB", policy="dp") as loaded:
    report = serve(loaded)
    dense = sum(w.numel() * w.element_size() for w in loaded.model.parameters() if not w.is_meta)
    experts = loaded.store.size_bytes
print(json.dumps({
    "growth": status("VmHWM") - before, "dense": dense, "experts": experts,
    "arena": report.arena_bytes, "budget": report.expert_memory_bytes, "tokens": report.totals().tokens,
}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_the_peak_stays_under_dense_weights_and_budget_and_the_stated_constant(tmp_path):
    small, large = str(tmp_path / "small"), str(tmp_path / "large")
    for folder, layers, width in ((small, "2", "64"), (large, "4", "512")):
        subprocess.run([sys.executable, "-c", _WRITE, folder, layers, width], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", _SERVE, small, large], check=True, capture_output=True, text=True
    )
    seen = json.loads(done.stdout)
    assert seen["experts"] > 190 * 2**20
    assert seen["tokens"] == 4 * (16 + 11)
    assert seen["arena"] <= seen["budget"] == 24 * 2**20
    assert seen["growth"] < seen["dense"] + seen["budget"] + STATED_CONSTANT_BYTES

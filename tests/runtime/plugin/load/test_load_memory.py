"""Building a model takes the memory of its dense weights, not of its experts."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

MIB = 2**20
SCRIPT = """
import sys
from prescope.runtime.plugin.load import build_from_checkpoint

def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

small, large = sys.argv[1:]
build_from_checkpoint(small)  # everything is imported and warm
before = peak_bytes()
model, checkpoint = build_from_checkpoint(large)
print(peak_bytes() - before)
"""


def save(folder: Path, *, hidden: int, vocabulary: int) -> tuple[int, int]:
    from transformers import MixtralConfig, MixtralForCausalLM
    from transformers.initialization import no_init_weights
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = MixtralConfig(
        hidden_size=hidden, intermediate_size=2 * hidden, num_local_experts=8, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=vocabulary,
    )  # fmt: skip
    with no_init_weights():
        model = MixtralForCausalLM(config).to(torch.float32)
    for weight in model.parameters():
        weight.data.fill_(0.01)
    model.save_pretrained(folder, max_shard_size="40MB")
    sizes = {name: weight.nbytes for name, weight in model.named_parameters()}
    experts = sum(size for name, size in sizes.items() if ".experts." in name)
    return experts, sum(sizes.values()) - experts


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_the_experts_never_enter_memory(tmp_path) -> None:
    save(tmp_path / "small", hidden=16, vocabulary=100)
    experts, dense = save(tmp_path / "large", hidden=512, vocabulary=8000)
    assert experts > 190 * MIB
    assert dense > 30 * MIB
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "small", tmp_path / "large"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout)
    assert dense - 8 * MIB < grown < dense + 24 * MIB

"""A model served from its checkpoint computes what the fully loaded one does, and lets go of its files."""

import os
from pathlib import Path

import pytest
import torch
from tiny_models import FAMILY_NAMES, prompts
from transformers import AutoModelForCausalLM

import prescope
from prescope.runtime.disk import CheckpointError, DiskStore
from prescope.runtime.plugin import AttachError
from prescope.runtime.plugin.load import load, store_of

ROW_BYTES = 3 * 16 * 32 * 4


def open_files(folder: Path) -> list[str]:
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found


linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are read from /proc")


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_served_from_disk_the_output_is_the_same_bit_for_bit(save, family) -> None:
    folder = save(family, shard="20KB")
    stock = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    stock.set_experts_implementation("eager")
    # Without padding: experts are not run on padding, and matrices of fewer rows round differently.
    inputs = prompts(3, 6, padded=False)
    with load(folder, 8 * (ROW_BYTES + 4096)) as loaded, torch.no_grad():
        assert torch.equal(loaded.model(**inputs).logits, stock(**inputs).logits)
        settings = {"max_new_tokens": 5, "do_sample": False}
        assert torch.equal(loaded.model.generate(**inputs, **settings), stock.generate(**inputs, **settings))
        assert loaded.store.bytes_read > 0
        assert loaded.engine.report().backend == "disk"
        assert store_of(loaded.model) is loaded.store


@linux
def test_closing_lets_go_of_the_files(save) -> None:
    folder = save(shard="20KB")
    loaded = load(folder, "1MiB")
    assert open_files(folder)
    loaded.close()
    loaded.close()
    assert open_files(folder) == []


@linux
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expert_memory": 1000}, "expected expert_memory of at least"),
        ({"expert_memory": "much"}, "much"),
        ({"policy": "magic"}, "magic"),
        ({"backend": "cpu"}, "expected backend 'disk'"),
    ],
)
def test_what_cannot_be_honoured_leaves_nothing_open(save, options, message) -> None:
    folder = save()
    with pytest.raises(AttachError, match=message) as caught:
        load(folder, **options)
    # The traceback keeps everything alive that was not closed.
    assert caught.tb is not None and open_files(folder) == []


@linux
def test_a_bad_checkpoint_leaves_nothing_open(save, rewrite) -> None:
    folder = save()
    rewrite(folder, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight"):
        load(folder)
    assert open_files(folder) == []


@linux
def test_an_interruption_while_reading_leaves_nothing_open(save) -> None:
    folder = save()

    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(folder, progress=interrupt)
    assert open_files(folder) == []


def test_the_store_is_closed_even_when_detaching_fails(save, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    close = DiskStore.close

    def note(store: DiskStore) -> None:
        closed.append(store)
        close(store)

    loaded = load(save(), "1MiB")
    monkeypatch.setattr(DiskStore, "close", note)
    detach = loaded.engine.detach

    def fail() -> None:
        detach()
        raise RuntimeError("no")

    monkeypatch.setattr(loaded.engine, "detach", fail)
    with pytest.raises(RuntimeError, match="no"):
        loaded.close()
    assert closed == [loaded.store]


def test_it_is_public() -> None:
    assert prescope.load is load

"""An instance small enough to plan in no time, and the command line in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tiny_instances import make_instance, seeded

from prescope.cli import main
from prescope.instances import InstanceFile, Provenance, write_instance

Shape = TypeVar("Shape")


@pytest.fixture
def instance_path(tmp_path: Path) -> Path:
    """A file with an instance that needs copies and lets the host compute."""
    seed = next(s for s in range(1000) if worth_planning(s))
    path = tmp_path / "small.json"
    file = InstanceFile(instance=make_instance(seeded(seed), host=True), provenance=Provenance(source="test"))
    write_instance(path, file)
    return path


def worth_planning(seed: int) -> bool:
    instance = make_instance(seeded(seed), host=True)
    return (
        instance.slots > 1
        and instance.layers > 2
        and instance.lookahead > 1
        and instance.demand.batch_tokens > 2
    )


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command with --json and give its answer in the shape promised; anything else on stdout fails."""

    def run(shape: type[Shape], *arguments: str | Path, code: int = 0) -> Shape:
        assert main([*map(str, arguments), "--json"]) == code
        return msgspec.convert(json.loads(capsys.readouterr().out), shape)

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused as wrong input: one line on stderr, nothing on stdout."""

    def run(*arguments: str | Path) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        streams = capsys.readouterr()
        assert streams.out == "" and streams.err.count("\n") == 1 and streams.err.startswith("prescope: ")
        assert "Traceback" not in streams.err
        return streams.err

    return run

"""Which prompts a command uses."""

from __future__ import annotations

from pathlib import Path

from prescope.models import prompts_for, read_prompts

# Seeds of the shipped prompts: those that choose the residents are never those that are measured.
_OTHER = 10_000


def take(model: str, file: Path | None, batch: int, *, seed: int) -> list[str]:
    """``batch`` prompts, from a file or from those that come with the model.

    Raises
    ------
    ValueError
        When the file holds fewer.
    """
    if file is None:
        return prompts_for(model, batch, seed=seed)
    found = read_prompts(file)
    if len(found) < batch:
        raise ValueError(f"{file}: expected at least {batch} prompts for --batch {batch}, got {len(found)}")
    return found[:batch]


def other_than(model: str, file: Path | None, others: Path | None, batch: int, *, seed: int) -> list[str]:
    """Prompts that choose the residents: a file of their own, the rest of ``file``, or shipped ones.

    Raises
    ------
    ValueError
        When there are none but those that are measured.
    """
    if others is not None:
        return read_prompts(others)
    if file is None:
        return prompts_for(model, batch, seed=seed + _OTHER)
    rest = read_prompts(file)[batch:]
    if not rest:
        raise ValueError(
            f"{file}: expected more than {batch} prompts, the rest of which choose the resident experts, "
            f"got {batch}; add some, or name a file with --other-prompts"
        )
    return rest[:batch]

"""Which prompts a command uses."""

from __future__ import annotations

from pathlib import Path

from prescope.models import OTHER_PROMPTS, read_prompts, shipped_prompts


def take_prompts(
    model: str, file: Path | None, others: Path | None, batch: int, *, seed: int
) -> tuple[list[str], list[str]]:
    """Prompts to measure with, and others that choose the residents.

    Parameters
    ----------
    model
        Name of the model; the tiny one comes with prompts.
    file
        Its first ``batch`` prompts are measured with; ``None`` takes those that come with the model.
    others
        Prompts that choose the residents; ``None`` takes the rest of ``file``, or shipped ones.
    batch
        Prompts to measure with.
    seed
        Which of the shipped ones.

    Raises
    ------
    ValueError
        When there are too few.
    """
    if file is None:
        measured, rest = shipped_prompts(model, batch, seed=seed)
    else:
        found = read_prompts(file)
        if len(found) < batch:
            raise ValueError(
                f"{file}: expected at least {batch} prompts for --batch {batch}, got {len(found)}"
            )
        measured, rest = found[:batch], found[batch:]
    if others is not None:
        rest = read_prompts(others)
    if not rest:
        raise ValueError(
            f"{file}: expected more than {batch} prompts, the rest of which choose the resident experts, "
            f"got {batch}; add some, or name a file with --other-prompts"
        )
    return measured, rest[:OTHER_PROMPTS]

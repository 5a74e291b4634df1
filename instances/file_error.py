"""The one error of every file of this room."""

from __future__ import annotations

import os


class InstanceFileError(ValueError):
    """A file that cannot be read, is not what it claims to be, or may not be written.

    Parameters
    ----------
    path
        The file.
    field
        Where in it, for example ``instance.demand.counts[3]``; ``"file"`` when it is not one field.
    problem
        What was expected and what was got.
    remedy
        What to do about it.

    Attributes
    ----------
    path, field, problem, remedy
        As given, ``path`` as text.
    """

    def __init__(self, path: str | os.PathLike[str], field: str, problem: str, remedy: str) -> None:
        self.path, self.field, self.problem, self.remedy = os.fspath(path), field, problem, remedy
        super().__init__(f"{self.path}: {field}: {problem}. {remedy}")

    def __reduce__(self) -> tuple[type[InstanceFileError], tuple[str, str, str, str]]:
        # Exceptions cross process borders by their arguments, which here are not the message alone.
        return InstanceFileError, (self.path, self.field, self.problem, self.remedy)

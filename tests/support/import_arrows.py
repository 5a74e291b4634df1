"""The import arrows between the rooms, as a pure function from source text to complaints."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

FOUNDATION = frozenset({"formulation", "instances"})

# formulation <- instances <- {solver, predictor} <- runtime <- prescope (the face, imported by no room)
MAY_IMPORT: dict[str, frozenset[str]] = {
    "formulation": frozenset(),
    "instances": frozenset({"formulation"}),
    "solver": FOUNDATION,
    "predictor": FOUNDATION,
    "runtime": FOUNDATION | {"solver", "predictor"},
    "prescope": FOUNDATION | {"solver", "predictor", "runtime"},
}
ROOMS = frozenset(MAY_IMPORT) - {"prescope"}
FORMULATION_PACKAGES = frozenset({"numba", "numpy"})
MODEL_BUILDERS = "prescope.formulation.models."
IMPORT_FUNCTIONS = frozenset({"import_module", "__import__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One import that may not be."""

    line: int
    message: str


def violations(source: str, *, module: str | None = None, is_package: bool = False) -> list[Violation]:
    """Return the forbidden imports of a file, wherever in it they stand.

    Parameters
    ----------
    source
        Text of the file.
    module
        Import name (`prescope.solver.dp`), or None for a file outside the package (tests, benchmarks), which
        may import everything by its full name.
    is_package
        Whether the file is the `__init__.py` of `module`; relative imports are resolved with it.
    """
    found = []
    for line, target in imported(ast.parse(source), module, is_package):
        message = complaint(target, module)
        if message:
            found.append(Violation(line=line, message=message))
    return found


def imported(tree: ast.AST, module: str | None, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted target) of every import, lazy ones and import_module("...") included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = resolved(node, module, is_package)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}" if base else alias.name
        elif isinstance(node, ast.Call) and called_name(node) in IMPORT_FUNCTIONS and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def resolved(node: ast.ImportFrom, module: str | None, is_package: bool) -> str:
    """Return the absolute name of what stands between `from` and `import`."""
    if node.level == 0:
        return node.module or ""
    package = (module or "").split(".")
    up = node.level - is_package
    parts = package[: len(package) - up] if up else package
    return ".".join([*parts, *(node.module or "").split(".")]).strip(".")


def called_name(node: ast.Call) -> str | None:
    """Return the last name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None


def room_of(dotted: str) -> str:
    """Return the room a `prescope...` name belongs to; the face when it belongs to none."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "prescope"


def complaint(target: str, module: str | None) -> str | None:
    """Say what is wrong with `module` importing `target`, None when nothing is."""
    top = target.split(".")[0]
    if top in ROOMS:
        return f"bare import of {top!r}: it would be loaded twice; import prescope.{top} instead"
    if module is None:
        return None
    room = room_of(module)
    if top == "prescope":
        other = room_of(target)
        if other != room and other not in MAY_IMPORT[room]:
            may = ", ".join(sorted(MAY_IMPORT[room])) or "no other room"
            return f"{room} imports {target}: expected one of {{{may}}}, got {other}"
    elif room == "formulation" and top not in sys.stdlib_module_names | FORMULATION_PACKAGES:
        # Model builders describe a problem in a solver's own terms.
        if top == "ortools" and module.startswith(MODEL_BUILDERS):
            return None
        return f"formulation imports {top}: expected the standard library, numpy or numba"
    return None

"""The shape of the code: no circle of files, type-only imports and those in functions included; no long module.

Folders whose owners still end their circles or split their modules are listed here; what they have is shown.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import lbgen

ROOT = Path(lbgen.__file__).parent
LONGEST = 350
UNFINISHED = ("lbgen.runtime.",)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(name: str) -> set[str]:
    """The files of lbgen that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & FILES.keys()
            found |= submodules
            if len(submodules) < len(node.names):
                found.add(node.module)
    return (found & FILES.keys()) - {name}


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components of two files or more (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in graph[node]:
            if other not in numbers:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], numbers[other])
        if lowest[node] == numbers[node]:
            members = frozenset(stack[stack.index(node) :])
            del stack[stack.index(node) :]
            if len(members) > 1:
                found.add(members)

    for node in graph:
        if node not in numbers:
            visit(node)
    return found


def finished(found: set[str]) -> set[str]:
    """What is not in an unfinished folder; the rest becomes warnings."""
    left = {each for each in found if each.startswith(UNFINISHED)}
    for each in sorted(left):
        warnings.warn(each, stacklevel=2)
    return found - left


def test_no_circle_of_files() -> None:
    found = circles({name: imported(name) for name in FILES})
    assert finished({" ".join(sorted(circle)) for circle in found}) == set()


def test_no_module_is_long() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert finished({f"{name}: {count} lines" for name, count in lines.items() if count > LONGEST}) == set()

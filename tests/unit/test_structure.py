"""The shape of the code: no circle of files, type-only imports included, and no module above 350 lines.

What is known to break a rule stands in a list here, which may only shrink: an entry that is no longer needed fails.
"""

from __future__ import annotations

import ast
from pathlib import Path

import lbgen

ROOT = Path(lbgen.__file__).parent
LONGEST = 350
KNOWN_CIRCLES: set[str] = set()
KNOWN_LONG: set[str] = set()


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(name: str) -> set[str]:
    """The files of lbgen that a module imports, at its top or for types only; imports in functions are left out."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(ast.parse(FILES[name].read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If | ast.Try):
            pending += node.body
        elif isinstance(node, ast.Import):
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


def test_no_circle_of_files() -> None:
    found = {" ".join(sorted(circle)) for circle in circles({name: imported(name) for name in FILES})}
    assert found - KNOWN_CIRCLES == set(), "files that import each other, types included"
    assert KNOWN_CIRCLES - found == set(), "ended: drop them from the list"


def test_no_long_module() -> None:
    found = {name for name, path in FILES.items() if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST}
    assert found - KNOWN_LONG == set(), f"modules above {LONGEST} lines"
    assert KNOWN_LONG - found == set(), "short enough: drop them from the list"

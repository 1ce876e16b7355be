"""The shape of the code: no circle of files, type-only imports and those in functions included; no long module.

Every engine folder has the same skeleton, and code outside of it does not name an engine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import click
import pytest

import lbgen
from lbgen.cli.main import VERBS, group
from lbgen.cli.schema import ANSWERS
from lbgen.installed import engine_names

ROOT = Path(lbgen.__file__).parent
LONGEST = 600

# One concern, one name in every engine folder; a concern that an engine lacks has no file. A concern that is too long
# for one file has parts.
SKELETON = {
    "engine": "__init__ support objections pool_objections build view features quote",
    "listener": "listeners tls paths limits connections access l4",
    "matching": "matching conditions maps predicates prefix_trees routers",
    "routes": "actions middlewares routes server_blocks",
    "policies": "responses error_pages mirrors basic_auth forward_auth jwt cors compression rate_limits",
    "headers": "headers forwarded_headers mutations request_values rewrites values",
    "upstreams": "upstreams backend_selection balancing pool_selection tcp_weights upstream_protocols",
    "pools": "sticky health_checks retries timeouts",
    "run": "run live transaction health_status access_log",
    "text of the engine": "buffers definitions names plugin protobuf statements strings",
}
KNOWN = set(" ".join(SKELETON.values()).split())


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


def test_no_circle_of_files() -> None:
    TopologicalSorter({name: imported(name) for name in FILES}).prepare()  # CycleError names the files


def test_no_module_is_long() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert {f"{name}: {count} lines" for name, count in lines.items() if count > LONGEST} == set()


@pytest.mark.parametrize("engine", engine_names())
def test_engine_folders_have_one_skeleton(engine: str) -> None:
    names = {path.stem for path in (ROOT / "engines" / engine).rglob("*.py")}
    assert names - KNOWN == set()


def test_parts_of_the_skeleton_exist() -> None:
    names = {path.stem for engine in engine_names() for path in (ROOT / "engines" / engine).rglob("*.py")}
    assert KNOWN - names == set()


@pytest.mark.parametrize("engine", [name for name in engine_names() if f"lbgen.engines.{name}.features" in FILES])
def test_each_contributor_has_its_row(engine: str) -> None:
    inside = f"lbgen.engines.{engine}"
    kind, rows = import_module(f"{inside}.view").Contributor, import_module(f"{inside}.features").FEATURES
    modules = [import_module(name) for name in FILES if name.startswith(f"{inside}.")]
    defined = {id(each): name for module in modules for name, each in vars(module).items() if isinstance(each, kind)}
    assert len(rows) == len({id(each) for each in rows})
    assert {name for each, name in defined.items() if each not in {id(row) for row in rows}} == set()


@pytest.mark.parametrize("engine", engine_names())
def test_no_engine_is_named_outside_of_its_folder(engine: str) -> None:
    inside = f"lbgen.engines.{engine}"
    naming = {name for name in FILES if not f"{name}.".startswith(f"{inside}.") and names_engine(FILES[name], engine)}
    assert naming == set()


def names_engine(path: Path, engine: str) -> bool:
    """Whether code has the engine's name as a text of its own or within an identifier; examples for users may."""
    if engine not in path.read_text(encoding="utf-8").lower():
        return False  # most files, which need not be parsed
    texts, identifiers = words_of(path)
    return engine in texts or any(engine in each for each in identifiers)


@cache
def words_of(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The texts in a file's code, those of examples left out, and its identifiers in lower case."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    examples = [x.value for x in nodes if isinstance(x, ast.keyword) and x.arg == "examples"]
    shown = {id(node) for example in examples for node in ast.walk(example)}
    texts = {x.value for x in nodes if isinstance(x, ast.Constant) and isinstance(x.value, str) and id(x) not in shown}
    names = {x.id for x in nodes if isinstance(x, ast.Name)} | {x.attr for x in nodes if isinstance(x, ast.Attribute)}
    return frozenset(texts), frozenset(name.lower() for name in names)


def commands_with_json(command: click.Command, name: str) -> Iterator[str]:
    if any("--json" in each.opts for each in command.params):
        yield name
    if isinstance(command, click.Group):
        for inner, below in command.commands.items():
            yield from commands_with_json(below, f"{name} {inner}")


def test_every_command_with_json_has_a_schema() -> None:
    top = click.Context(group)
    commands = [(verb, group.get_command(top, verb)) for verb in VERBS]
    found = [name for verb, command in commands if command for name in commands_with_json(command, verb)]
    assert sorted(found) == sorted(ANSWERS), "one line in lbgen/cli/schema.py: the type of what --json prints"

"""The topologies that `lbgen init` writes: small, commented, without findings or advice."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "starters"
DEFAULT = "minimal"
SCHEMA_FILE = "lbgen.schema.json"  # the first line of every starter names it for editors


def starters() -> tuple[str, ...]:
    """The names of the starters, the default first."""
    others = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    others.remove(DEFAULT)
    return (DEFAULT, *others)


def first_command(template: str, file: str) -> str:
    """The command in the comments of that starter that runs it; `file` is the topology, as a shell reads it."""
    lines = starter(template).splitlines()
    found = next(line for line in lines if line.startswith("#   lbgen up "))
    return found.removeprefix("#").strip().replace("THIS_FILE", file)


def starter(template: str = DEFAULT) -> str:
    """The text of that starter; KeyError when there is none of that name."""
    if template not in starters():
        raise KeyError(template)
    return (_FOLDER / f"{template}.yaml").read_text(encoding="utf-8")

"""Merges a topology over its profile, a partial topology with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lbgen import resources
from lbgen.diagnostics import Diagnostic, LbgenError
from lbgen.spec.marks import Layers
from lbgen.spec.pydantic_errors import suggest
from lbgen.spec.source import Source, read_file
from lbgen.spec.value_errors import shorten

DEFAULT = "production"


def names() -> tuple[str, ...]:
    """The built-in profiles, in the order of their names."""
    return tuple(sorted(path.stem for path in resources.folder("profiles").glob("*.yaml")))


def with_profile(user: Source, base: Path, variables: Mapping[str, str]) -> tuple[dict[str, Any], Layers]:
    """The user's data over that of the profile it names, and the marks of both.

    A profile is a built-in name or a file (`./file.yaml`, relative to `base`). Maps merge, lists replace, the user's
    values win. Raises LbgenError: LB110, LB130, LB131, and what reading the file finds.
    """
    asked = user.data.get("profile", DEFAULT)
    if not isinstance(asked, str):  # the model reports it
        return user.data, Layers(user.marks)
    under = read_file(_find(asked, user, base), variables)
    if not isinstance(under.data, dict):
        span = under.marks.span("")
        raise LbgenError(Diagnostic("LB105", "not a mapping where a profile is expected", span))
    for key, does in (("profile", "names another profile"), ("include", "includes other files")):
        if key in under.data:
            span = under.marks.span(key, key=True)
            hint = "copy what you need of them into this one"
            raise LbgenError(Diagnostic("LB131", f"a profile {does}", span, key, hint))
    return _merged(under.data, user.data), Layers(user.marks, under.marks)


def _find(asked: str, user: Source, base: Path) -> Path:
    if "/" in asked or asked.endswith((".yaml", ".yml")):
        path = base / asked
        if "\0" in asked or not path.is_file():
            message = f'the file "{shorten(asked)}" does not exist'
            hint = "relative paths start at the topology's folder"
            raise LbgenError(Diagnostic("LB110", message, user.marks.span("profile"), "profile", hint))
        return path
    if asked in names():
        return resources.folder("profiles") / f"{asked}.yaml"
    message = f'there is no profile "{shorten(asked)}"'
    raise LbgenError(Diagnostic("LB130", message, user.marks.span("profile"), "profile", suggest(asked, names())))


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        lower = merged.get(key)
        both = isinstance(value, dict) and isinstance(lower, dict)
        merged[key] = _merged(lower, value) if both else value  # type: ignore[arg-type]  # both are dicts
    return merged

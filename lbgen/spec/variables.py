"""Replaces `${NAME}` and `${NAME:-default}` in the values of a topology; `$$` is a dollar sign."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.scalars import Unusable

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|(?P<open>\{))")


def replace_references(text: str, variables: Mapping[str, str]) -> str:
    """`text` with each reference replaced by its variable. As in a shell, a default also stands for an empty value.
    Raises Unusable: LB132 for a variable that is not set, LB133 for a brace that begins no reference."""

    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["open"]:
            hint = "write ${NAME}, ${NAME:-default}, or $${ for the text ${"
            raise Unusable("LB133", "${ begins no reference to a variable", hint)
        name, default = found["name"], found["default"]
        known = variables.get(name)
        if default is not None:
            return known or default[2:]
        if known is None:
            hint = f"set it in the environment or by --env-file, or write ${{{name}:-DEFAULT}}"
            raise Unusable("LB132", f"the variable {name} is not set", hint)
        return known

    return _REFERENCE.sub(value, text)


def escape_references(text: str) -> str:
    """A text that `replace_references` turns into `text`, whatever variables there are."""
    return text.replace("$", "$$") if "${" in text or "$$" in text else text


def names_in(text: str) -> tuple[str, ...]:
    """The names of the variables that `text` refers to."""
    return tuple(dict.fromkeys(found["name"] for found in _REFERENCE.finditer(text) if found["name"]))


def environment(env_file: Path | None = None, content: bytes | None = None) -> Mapping[str, str]:
    """The variables of this process, over those of `env_file` with lines NAME=VALUE. `content` is read instead of the
    file where it is given; findings name the file.
    Raises LbgenError: LB110 for an unreadable file, LB135 for a line that is not of that form."""
    if env_file is None:
        return os.environ
    values: dict[str, str] = {}
    wrong: list[Diagnostic] = []
    try:
        read = env_file.read_bytes() if content is None else content
        with StringIO(read.decode("utf-8"), newline=None) as stream:
            for line in parse_stream(stream):
                if line.error or (line.key is not None and line.value is None):
                    hint = "write NAME=VALUE; quote a value that holds spaces or #"
                    text = line.original.string
                    number = line.original.line + len(text) - len(text.lstrip("\n"))
                    span = Span(str(env_file), number, 1)
                    wrong.append(Diagnostic("LB135", "the line sets no variable", span, hint=hint))
                elif line.key is not None and line.value is not None:
                    values[line.key] = line.value
    except OSError as error:
        raise LbgenError(Diagnostic("LB110", str(error.strerror or error).lower(), Span(str(env_file)))) from None
    except UnicodeDecodeError:
        raise LbgenError(Diagnostic("LB109", "the text is not UTF-8", Span(str(env_file)))) from None
    if wrong:
        raise LbgenError(wrong)
    return ChainMap(dict(os.environ), values)

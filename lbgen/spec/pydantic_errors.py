"""Turns pydantic's errors about a topology into diagnostics with a code, a place, a message and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from lbgen.diagnostics import Diagnostic
from lbgen.spec import foreign_terms
from lbgen.spec.dump import flow
from lbgen.spec.marks import Layers, Step, field_path
from lbgen.spec.quantities import format_in_unit_of
from lbgen.spec.scalars import Unusable, read_scalar
from lbgen.spec.source import MOST_FINDINGS
from lbgen.spec.value_errors import kind_of, shorten

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from typing_extensions import TypeIs

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_TRUTH = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}


_NEAR = 0.8  # of 1: a key so near to a known one is a slip, not another tool's word


def _nearest(wrong: str, known: Iterable[str], cutoff: float = 0.65) -> list[str]:
    """The word that is the most like `wrong`, if one is."""
    return get_close_matches(wrong.lower(), list(known), n=1, cutoff=cutoff)


def suggest(wrong: str, known: Iterable[str]) -> str:
    """`did you mean "weight"?`, or the known words when none is near."""
    words = list(known)
    near = _nearest(wrong, words)
    return f'did you mean "{near[0]}"?' if near else f"known here: {', '.join(words)}" if words else ""


def diagnose(error: ValidationError, model: type[BaseModel], data: object, marks: Layers) -> list[Diagnostic]:
    """One diagnostic for each line of `error`, which `model` raised about `data`; the first two hundred."""
    lines = error.errors(include_url=False)
    found = [_finding(line, model, data, marks) for line in lines[:MOST_FINDINGS]]
    if len(lines) > MOST_FINDINGS:
        message = f"{len(lines) - MOST_FINDINGS} more findings are not shown"
        found.append(Diagnostic("LB104", message, marks.span("")))
    return found


def _finding(line: ErrorDetails, model: type[BaseModel], data: object, marks: Layers) -> Diagnostic:
    loc, code = line["loc"], line["type"]
    steps = _resolved(data, loc)
    at, shown, at_key = field_path(steps), steps, False
    if code.startswith("LB"):
        context = line["ctx"]
        message, hint = context["message"], context["hint"]
        at_key = loc[-1:] == ("[key]",)
        if context["key"]:
            shown, at_key = (*steps, context["key"]), True
            at = field_path(shown)
    elif code == "missing":
        code, message, hint = "LB103", "is required", f"add {loc[-1]}:"
        shown = (*steps, loc[-1])
    elif code == "extra_forbidden":
        code, message, hint, at_key = (
            "LB101",
            "unknown key",
            _key_hint(str(loc[-1]), models_at(model, loc[:-1]), model),
            True,
        )
    else:
        code, message, hint = _explained(line, marks.written(at))
        if message.endswith(("where a mapping is expected", "where a list is expected")):
            hint = _example_at(model, loc) or hint
    if not at_key and (replaced := marks.replaced(at)) is not None:  # a variable may hold a secret
        value, written = replaced
        message, hint = message.replace(value or "\0", written), "" if value and value in hint else hint
    return Diagnostic(code, message, marks.span(at, key=at_key), shorten(field_path(shown), 200), hint)


def read_variables(error: ValidationError, data: Any, marks: Layers) -> bool:  # noqa: ANN401  # plain data
    """Read the values with variables that `error` refuses as YAML reads them without quotes, in place; says whether any
    changed."""
    changed = False
    if not marks.has_variables():
        return changed
    for line in error.errors(include_url=False):
        steps = _resolved(data, line["loc"])
        replaced = marks.replaced(field_path(steps)) if steps else None
        holder = data
        for step in steps[:-1]:
            holder = holder[step]
        if replaced is None or holder[steps[-1]] != replaced[0]:
            continue
        with suppress(Unusable):
            value = read_scalar(replaced[0])
            if value is not None and not isinstance(value, str):
                holder[steps[-1]] = value
                changed = True
    return changed


def _resolved(data: Any, loc: tuple[Step, ...]) -> tuple[Step, ...]:  # noqa: ANN401  # plain data
    """The steps of `loc` that are in the data: pydantic adds steps for unions and for what is written short."""
    steps: list[Step] = []
    for step in loc:
        inside = step < len(data) if isinstance(data, list) and isinstance(step, int) else False
        if inside or (isinstance(data, dict) and step in data):
            data = data[step]
            steps.append(step)
    return tuple(steps)


def _explained(line: ErrorDetails, written: str | None) -> tuple[str, str, str]:
    """Code, message and hint for a kind of error that is pydantic's own."""
    code, value, context = line["type"], line["input"], line.get("ctx", {})
    shown = shorten(written if written is not None else str(value))
    if wanted := _WANTED.get(code):
        return "LB105", f"{kind_of(value)} where {wanted} is expected", _conversion(wanted, value, shown)
    if code == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        if isinstance(value, str) and (hint := foreign_terms.WORDS.get((str(line["loc"][-1]), value.lower()))):
            return "LB104", f'"{shown}" is unknown', hint
        if not isinstance(value, str):
            hint = f'write "{shown}"' if shown in words else f"write {' or '.join(words) or context['expected']}"
            return "LB105", f"{kind_of(value)} where a word is expected", hint
        near = _nearest(value, words)
        return "LB104", f'"{shown}" is unknown', f'did you mean "{near[0]}"?' if near else f"write {' or '.join(words)}"
    if code in ("less_than_equal", "greater_than_equal"):
        bound = format_in_unit_of(value, context.get("le", context.get("ge")))
        name = "port " if line["loc"][-1:] == ("port",) else ""
        return "LB104", f"{name}{shown} is {'above' if 'le' in context else 'below'} {bound}", ""
    if code == "too_short":
        return "LB126", "is empty", "add an entry, or drop the key"
    return "LB104", line["msg"][:1].lower() + line["msg"][1:], ""


def _conversion(wanted: str, value: object, shown: str) -> str:
    if wanted == "text" and isinstance(value, bool | int | float):
        return f'write "{shown}"'
    if "number" in wanted and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return f"write {int(value)} without quotes"
    if "number" in wanted and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wanted == "true or false":
        word = _TRUTH.get(str(value).lower(), "")
        return f"write {word} without quotes" if word else "write true or false"
    if wanted == "a list" and isinstance(value, str | int):
        return f"write [{shown}]"
    if wanted == "a list" and isinstance(value, dict):
        return "write it as a list: [{ ... }]"
    return ""


def _example_at(model: type[BaseModel], loc: tuple[Step, ...]) -> str:
    """The example of the field at `loc`, where that is a mapping."""
    for each in models_at(model, loc[:-1]):
        field = each.model_fields.get(str(loc[-1]))
        for example in (field.examples or ()) if field is not None else ():
            if isinstance(example, dict):
                return f"write such as {loc[-1]}: {flow(example)}"
    return ""


def _key_hint(key: str, models: list[type[BaseModel]], root: type[BaseModel]) -> str:
    """What to write instead of a key that no mapping of these models has."""
    names = [model.__name__ for model in models]
    known = [name for model in models for name in model.model_fields]
    if root in models and key.startswith(("x-", ".")):  # where compose files and CI systems keep anchors
        return foreign_terms.ANCHORS
    foreign = next(filter(None, (foreign_terms.foreign_key(key, name) for name in names)), None)
    if foreign is None and not _nearest(key, known, _NEAR):
        foreign = foreign_terms.foreign_key_anywhere(key)
    if foreign is None:
        return suggest(key, known)
    return foreign.hint(here=any(model in models for model in models_at(root, foreign.holder)))


def models_at(model: type[BaseModel], loc: tuple[Step, ...]) -> list[type[BaseModel]]:
    """The models of the mapping at `loc`."""
    annotation: object = model
    for step in loc:
        annotation = _inside(annotation, step) or annotation
    return [] if get_origin(annotation) is dict else list(models_of(annotation))


def models_of(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, inside unions, lists and mappings too."""
    if _is_model(annotation):
        yield annotation
    else:
        for inner in get_args(annotation):
            yield from models_of(inner)


def _inside(annotation: object, step: Step) -> object:
    """The annotation of a field or an item; None where `step` is one of pydantic's own, such as that of a union."""
    if _is_model(annotation):
        field = annotation.model_fields.get(str(step))
        return None if field is None else field.annotation
    if get_origin(annotation) in (list, dict):
        return get_args(annotation)[-1]
    return next((found for inner in get_args(annotation) if (found := _inside(inner, step)) is not None), None)


def _is_model(part: object) -> TypeIs[type[BaseModel]]:
    return isinstance(part, type) and issubclass(part, BaseModel)

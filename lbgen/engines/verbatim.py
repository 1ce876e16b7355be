"""Text of the topology for one engine alone (`engines.<name>.<place>`): where it may go, and whether it got there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from lbgen.engine_words import find_authentication
from lbgen.engines.api import Engine, Objection, approximate, refused
from lbgen.engines.document import Tagged
from lbgen.plan.model import Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def texts(plan: Plan, engine: str) -> dict[str, tuple[str, str]]:
    """Place -> the topology field that says so, and its text."""
    return {place: (f"engines.{engine}.{place}", text) for place, text in plan.options(engine).verbatim}


def unplaced(plan: Plan, engine: Engine) -> Iterator[Objection]:
    """Refusals of places that the engine has not."""
    for place, _ in plan.options(engine.name).verbatim:
        if place not in dict(engine.insertion_points):
            there = "; ".join(f"{name} ({where})" for name, where in engine.insertion_points)
            why = refused(f"its configuration has no place {place!r}; it has {there or 'none'}")
            yield Objection(why, f"engines.{engine.name}.{place}")


def of_other_engines(plan: Plan, engine: Engine) -> Iterator[Objection]:
    """An approximate verdict on each text that another engine gets and this one does not; it may be an access rule."""
    for name, options in plan.engines:
        for place, text in options.verbatim if name != engine.name else ():
            field, word = f"engines.{name}.{place}", find_authentication(text)
            note = f"this text is for {name} alone; what it adds, such as an access rule, is missing here"
            yield Objection(approximate(note), field, "engines.verbatim")
            if word is not None:
                note = f"{word} authenticates clients on {name} alone; here nobody is asked, and every route is open"
                yield Objection(approximate(note), field, "engines.verbatim.auth")


class NotDataError(ValueError):
    """The text for a place where data are needed is none; says why."""


def entries(plan: Plan, engine: str, place: str) -> list[Data]:
    """The YAML list that goes to this place; empty without. Raises NotDataError."""
    field, found = _data(plan, engine, place)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise NotDataError("has to be a YAML list of mappings")
    return [Tagged(field, each) for each in found]


def nowhere(plan: Plan, engine: str, place: str) -> None:
    """NotDataError when there is something for a place that is not there this time."""
    if place in dict(plan.options(engine).verbatim):
        raise NotDataError("has no place, as nothing of the topology needs it")


def keys(plan: Plan, engine: str, place: str, taken: Iterable[str] = ()) -> dict[str, Data]:
    """The YAML mapping that goes to this place; empty without. Raises NotDataError, also for keys that are `taken`."""
    field, found = _data(plan, engine, place)
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found):
        raise NotDataError("has to be a YAML mapping")
    if both := sorted(set(found) & set(taken)):
        raise NotDataError(f"has {', '.join(both)}, which lbgen writes itself")
    return {key: Tagged(field, value) if isinstance(value, dict) else value for key, value in found.items()}


def unreadable(plan: Plan, engine: str, readers: Mapping[str, Callable[[], object]]) -> Iterator[Objection]:
    """Refusals of what the readers of places (`entries`, `keys`) raise on."""
    for place, read in readers.items():
        try:
            read()
        except NotDataError as why:
            yield Objection(refused(f"the text {why}"), f"engines.{engine}.{place}")


def _data(plan: Plan, engine: str, place: str) -> tuple[str, Data]:
    import yaml  # heavy, and rarely needed: each supervisor of a stack would hold it

    text = dict(plan.options(engine).verbatim).get(place, "")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise NotDataError("is YAML with an alias, which is not followed here; write it out")
        return f"engines.{engine}.{place}", yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotDataError(f"is no YAML: {' '.join(str(error).split())}") from error

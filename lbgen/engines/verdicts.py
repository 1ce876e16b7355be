"""Plan and engine -> a verdict for every feature in use, the findings that stop a render, and rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from msgspec import Meta, Struct
from msgspec.structs import replace

from lbgen.diagnostics import NOWHERE, Diagnostic, Span, UsageError
from lbgen.engines.api import (
    Deployed,
    Engine,
    Level,
    Objection,
    Verdict,
    emulated,
    engine_names,
    is_known,
    local_engines,
    refused,
    target_version,
    version_key,
)
from lbgen.engines.api import engine as find_engine
from lbgen.engines.verbatim import of_other_engines, unplaced
from lbgen.json_types import Record
from lbgen.plan.features import Feature, all_features
from lbgen.plan.model import Plan
from lbgen.severity import Severity

if TYPE_CHECKING:
    _Asked = set[tuple[Feature | None, str]]

ACCEPT_ALL = "all"
DEFAULT, ACCEPTED = "*", "+"
LEGEND = {
    DEFAULT: "no field asks for it and no client can bypass a rule with it: it does not stop a render",
    ACCEPTED: "accepted, by the topology or its profile",
}
BY_DOCUMENTATION = "as asked, by the documentation of a system that does not run here: proven by no traffic"
_LISTENERS = {"listener.l7", "listener.l4.tcp", "listener.l4.udp"}


@runtime_checkable
class PlanJudge(Protocol):
    """An engine that serves some plans in another way, with other verdicts; beside `lbgen.engines.api.Engine`."""

    def verdict_on(self, plan: Plan, feature: Feature, version: str) -> Verdict:
        """How `version` honours the feature in this plan."""
        ...


def verdict_on(plan: Plan, engine: Engine, feature: Feature, version: str) -> Verdict:
    """The verdict of an engine on a feature of a plan."""
    if isinstance(engine, PlanJudge):
        verdict = engine.verdict_on(plan, feature, version)
    else:
        verdict = engine.verdict(feature, version)
    if verdict.when is None:
        return verdict
    return _where_it_shows(plan, verdict, [use.field for use in plan.uses_of(feature)])


def objections_on(plan: Plan, engine: Engine, version: str) -> Iterator[Objection]:
    """What an engine objects to at single places of a plan."""
    for each in engine.objections(plan, version):
        yield replace(each, verdict=_where_it_shows(plan, each.verdict, [each.field]))


def _where_it_shows(plan: Plan, verdict: Verdict, fields: Sequence[str]) -> Verdict:
    """`verdict`, or `emulated` where no request of the plan shows the difference."""
    if verdict.when is None or not fields or any(verdict.when(plan, field) for field in fields):
        return verdict
    return emulated(f"as asked, since no request of this topology can show what differs elsewhere: {verdict.note}")


class VerdictRecord(Record):
    """What an engine does with one feature, or with one field."""

    feature: Annotated[Feature | None, Meta(description="null: the value of the field, which no feature names.")]
    verdict: Level
    note: Annotated[
        str, Meta(description="How it is emulated, what differs, or why it is refused; empty for most native ones.")
    ]
    fields: Annotated[list[str], Meta(description="The topology fields that ask for it.")]
    accepted: Annotated[bool, Meta(description="Accepted by the topology, its profile, or --accept.")]
    default: Annotated[bool, Meta(description="No field asks for it, so an approximate verdict stops nothing.")]


class Answer(Struct, frozen=True):
    """What an engine says to one feature of a plan, or (`place`) to the single field `fields[0]`.

    `default`: only about values that nobody wrote; an approximate one is shown and stops nothing.
    """

    feature: Feature | None
    verdict: Verdict
    fields: tuple[str, ...]
    accepted: bool = False
    place: bool = False
    default: bool = False

    def __repr__(self) -> str:
        return f"<Answer {self.feature or 'a value'}: {self.verdict.level} ({', '.join(self.fields)})>"

    def as_dict(self) -> VerdictRecord:
        """The JSON record: feature, verdict, note, fields, accepted, default."""
        return {
            "feature": self.feature,
            "verdict": self.verdict.level,
            "note": self.verdict.note,
            "fields": list(self.fields),
            "accepted": self.accepted,
            "default": self.default,
        }


def answers(plan: Plan, engine: Engine, version: str, accept: Iterable[str] = ()) -> tuple[Answer, ...]:
    """One answer per feature that `plan` uses, then one per objection to a single place."""
    accepted = _accepted(engine, (*plan.accept, *accept))
    unwritten = {(use.feature, use.field) for use in plan.uses if use.default}
    found = []
    for feature, every in plan.uses_by_feature().items():
        uses = [use for use in every if concerns(use.field, engine)]
        if not uses:
            continue
        verdict = verdict_on(plan, engine, feature, version)
        fields = tuple(dict.fromkeys(use.field for use in uses))
        ok = bool(accepted & {feature, ACCEPT_ALL})
        found.append(Answer(feature, verdict, fields, ok, default=all(use.default for use in uses)))
    texts = (*unplaced(plan, engine), *of_other_engines(plan, engine))
    said = (*texts, *_outside(plan), *_without_choice(plan, engine, version), *objections_on(plan, engine, version))
    for objection in said:
        named = objection.feature or ""
        ok = bool(accepted & {named, ACCEPT_ALL})
        default = (objection.feature, objection.field) in unwritten
        found.append(Answer(objection.feature, objection.verdict, (objection.field,), ok, place=True, default=default))
    return tuple(found)


def _accepted(engine: Engine, words: Iterable[str]) -> set[str]:
    """The features that `engine` may approximate, of words that name an engine (`nginx:timeouts.idle`) or none."""
    return {feature for name, _, feature in (word.rpartition(":") for word in words) if name in ("", engine.name)}


def _without_choice(plan: Plan, engine: Engine, version: str) -> Iterator[Objection]:
    """A refusal of `forwarding: nat`, and of `device`, where the engine has no other way, and of certificates that it
    cannot read."""
    said, place = plan.options(engine.name), f"engines.{engine.name}"
    if said.certificate_arns and not isinstance(engine, Deployed):
        why = refused("its certificates are files, which `tls.certificates` of a listener names")
        yield Objection(why, f"{place}.certificate_arns")
    if verdict_on(plan, engine, "engines.forwarding.direct", version).level is not Level.REFUSED:
        return
    if said.forwarding == "nat":
        yield Objection(refused("it is a proxy, which has no such choice"), f"{place}.forwarding")
    if said.device is not None:
        yield Objection(refused("it has no direct forwarding, which uses that interface"), f"{place}.device")


def _outside(plan: Plan) -> Iterator[Objection]:
    """A refusal of each Service of a Kubernetes cluster. Exports for a cluster replace them by their names."""
    note = "a Service is known in its Kubernetes cluster alone (--to kubernetes); elsewhere write address: host:port"
    for pool in plan.pools:
        for endpoint in pool.endpoints:
            if endpoint.in_cluster:
                yield Objection(refused(note), f"{endpoint.field}.service")


def concerns(field: str, engine: Engine) -> bool:
    """Whether it is said to `engine`: what stands under `engines.<name>` is said to that one alone."""
    return not field.startswith("engines.") or field.startswith(f"engines.{engine.name}.")


def judge(
    plan: Plan, engine: Engine, version: str, accept: Iterable[str] = ()
) -> tuple[tuple[Answer, ...], tuple[Diagnostic, ...]]:
    """The answers, and a diagnostic for each that stops: LB301/LB304 refused, LB302 approximate and not accepted.

    Raises UsageError LB201 when `accept` names no feature.
    """
    accept = tuple(accept)
    if unknown := [name for name in accept if name not in {ACCEPT_ALL, *all_features()}]:
        hint = "lbgen explain lists the features of a topology; all accepts any"
        raise UsageError([Diagnostic("LB201", f'there is no feature "{name}"', hint=hint) for name in unknown])
    every = answers(plan, engine, version, accept)
    stopping = [answer for answer in every if _stops(answer)]
    if not stopping:
        return every, ()
    asked: _Asked = {(use.feature, use.field) for use in plan.uses}
    return every, tuple(_finding(answer, engine, version, _place(answer, asked, plan), plan) for answer in stopping)


def _stops(answer: Answer) -> bool:
    level = answer.verdict.level
    return level is Level.REFUSED or (level is Level.APPROXIMATE and not answer.accepted and not answer.default)


def _finding(answer: Answer, engine: Engine, version: str, span: Span, plan: Plan) -> Diagnostic:
    field = plan.spans.origin(answer.fields[0]) if answer.fields else ""
    others = len({plan.spans.origin(each) for each in answer.fields}) - 1
    more = f" (and {others} more place{'s' * (others > 1)})" if others > 0 else ""
    name = answer.feature or "this value"
    by = f"{engine.title} {version}: {answer.verdict.note}{more}"
    if answer.verdict.level is Level.REFUSED:
        code = "LB301" if answer.feature else "LB304"
        return Diagnostic(code, f"{name} is refused by {by}", span, field, _remedy(answer, engine, plan))
    word, how = ACCEPT_ALL, "accept it with --accept all, or change the value"
    if answer.feature:
        word, how = name, f"accept it with --accept {name}, or `accept: {{ {engine.name}: [{name}] }}` in the topology"
    return Diagnostic("LB302", f"{name} is approximate on {by}", span, field, how, accept=word)


def _place(answer: Answer, asked: _Asked, plan: Plan) -> Span:
    field = answer.fields[0] if answer.fields else ""
    found = plan.use_spans.get(field) if (answer.feature, field) in asked else None
    return found or plan.span(field)


def _remedy(answer: Answer, engine: Engine, plan: Plan) -> str:
    """Which other engines can, among those that serve such listeners, or what is left to do."""
    if answer.feature is None:
        return "change the value, or leave this engine out"
    if answer.verdict.note.endswith(" can"):  # it names them
        return "or leave it out"
    needed = {answer.feature, *(_LISTENERS & plan.uses_by_feature().keys())}
    able = [
        other.title
        for other in local_engines().values()
        if other.name != engine.name
        and all(other.verdict(each, other.versions[0]).level is not Level.REFUSED for each in needed)
    ]
    return f"{', '.join(able)} can; or leave it out" if able else "no engine can; leave it out"


def unknown_version(target: Engine, version: str, span: Span = NOWHERE, field: str = "") -> Iterator[Diagnostic]:
    """LB307 where lbgen does not know `version`, which gets the files for another one."""
    if not is_known(target, version):
        message = (
            f"lbgen does not know {target.title} {version}, which gets the files for {target_version(target, version)}"
        )
        hint = f"lbgen fingerprint {target.name} shows what it does otherwise; known: {', '.join(target.versions)}"
        yield Diagnostic("LB307", message, span, field, hint, Severity.WARNING)


def obstacles_by_version(plan: Plan, target: Engine) -> dict[str, tuple[Diagnostic, ...]]:
    """By supported version, newest first, what stops it from serving `plan`; nothing where it can."""
    versions = sorted(target.versions, key=version_key, reverse=True)
    return {version: judge(plan, target, version)[1] for version in versions}


def unknown_versions(plan: Plan) -> tuple[Diagnostic, ...]:
    """LB307 for each version that the topology asks for and lbgen does not know; UsageError LB305 for one too old."""
    return tuple(
        warning
        for name in engine_names()
        if (asked := plan.options(name).version) is not None
        for field in (f"engines.{name}.version",)
        for warning in unknown_version(find_engine(name), asked, plan.span(field), field)
    )


def worst_by_feature(columns: Mapping[str, Sequence[Answer]]) -> dict[str, dict[str, Answer]]:
    """By feature and engine the worst answer of all places."""
    rows: dict[str, dict[str, Answer]] = {}
    for name, found in columns.items():
        for answer in found:
            row = rows.setdefault(label(answer), {})
            row[name] = max(row.get(name, answer), answer, key=_badness)
    return rows


def notes(found: Sequence[Answer]) -> dict[tuple[str, str, str], list[str]]:
    """Level, mark and text of each note of one engine, with the features or places that have it; the worst first."""
    subjects: dict[tuple[str, str, str], list[str]] = {}
    for answer in sorted(found, key=_badness, reverse=True):
        if answer.verdict.note:
            place = f" at {answer.fields[0]}" if answer.place and answer.fields else ""
            key = (str(answer.verdict.level), mark(answer), answer.verdict.note)
            labels = subjects.setdefault(key, [])
            if (shown := f"{label(answer)}{place}") not in labels:
                labels.append(shown)
    return subjects


def label(answer: Answer) -> str:
    """What an answer is about."""
    return answer.feature or "a value"


def mark(answer: Answer) -> str:
    """`DEFAULT` or `ACCEPTED` for an approximate answer that stops nothing, else nothing."""
    if answer.verdict.level is not Level.APPROXIMATE:
        return ""
    return ACCEPTED if answer.accepted else DEFAULT if answer.default else ""


def _badness(answer: Answer) -> tuple[int, bool]:
    return list(Level).index(answer.verdict.level), not mark(answer)

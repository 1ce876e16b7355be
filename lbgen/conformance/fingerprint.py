"""Fingerprints: what one version of an engine does with fixed bytes, and what another version does differently.

The engine serves a small topology whose requests show its own habits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import Case, CaseFile, load_file
from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.conformance.http1_client import Answer, ClientConnection, exchange, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import Verdicts, without_refused
from lbgen.conformance.runner import EngineSession, engine_session
from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Level, engine, target_version
from lbgen.plan.features import all_features
from lbgen.runtime.standins.http1 import NAME, SEEN

FOLDER = Path(__file__).parent / "fingerprints"
_PARALLEL = 8
_SECONDS = 6.0  # for an answer
_USUAL = "plain"  # the probe that has nothing unusual
_RECEIVED = "received "
_TEXT = 200  # bytes of a body of the engine's own
_VOLATILE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "(uuid)"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "(32 hex digits)"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), "(now)"),
    (re.compile(r"x{100,}"), "(many x)"),
)


class Fingerprint(Struct, frozen=True):
    """What `version` of an engine did with each probe, as lines: the answer, then what the endpoint received."""

    engine: str
    version: str
    probes: Mapping[str, tuple[str, ...]]


class ChangedProbe(Struct, frozen=True):
    """A probe, or `verdict of <feature>`, and the lines of the versions that the other does not have."""

    probe: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@cache
def probes() -> CaseFile:
    """The topology and the bytes."""
    return load_file(FOLDER / "probes.yaml")


def measure(engine_name: str, version: str = "") -> Fingerprint:
    """Run that engine of this host (`version`: 3.2 or 3.2.26, default: the first that is here) and ask it everything.

    UsageError LB305 for an unknown engine or version, EngineError LB402 without its executable, LB403, LB407.
    """
    wanted = f"{engine_name}@{version}" if version else engine_name
    found = engines_on_host([wanted])
    subject = next((each for each in found if each.binary is not None), found[0])
    if subject.binary is None:
        raise EngineError(Diagnostic("LB402", subject.gap))
    return _measure(subject, subject.binary.version)


def _measure(subject: EngineUnderTest, version: str) -> Fingerprint:
    file = _served(subject)
    with engine_session(file, subject) as session, ThreadPoolExecutor(_PARALLEL) as pool:
        served = session.ready.served
        listeners = {x.name for x in served.listeners} if served is not None else set()
        cases = [case for case in file.cases if (case.request.listener or "web") in listeners]
        lines = dict(zip((case.id for case in cases), pool.map(lambda x: tuple(_ask(session, x)), cases), strict=True))
    usual = tuple(line for line in lines.get(_USUAL, ()) if line.startswith(_RECEIVED))
    return Fingerprint(subject.engine, version, {k: v if k == _USUAL else _shorten(v, usual) for k, v in lines.items()})


def _shorten(lines: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    """Without the header lines that endpoints usually receive; those that are missing are named instead."""
    if not any(line.startswith(_RECEIVED) for line in lines):
        return lines
    missing = (line.replace("received", "not received", 1) for line in usual if line not in lines)
    return (*(line for line in lines if line not in usual), *missing)


def _served(subject: EngineUnderTest) -> CaseFile:
    """The file, for an engine of L4 without the L7 listener."""
    file = probes()
    if engine(subject.engine).verdict("listener.l7", subject.version).level is not Level.REFUSED:
        return file
    level7 = {route["name"]: "" for route in file.topology["routes"] if route["listeners"] == ["web"]}
    return replace(file, topology=without_refused(file.topology, Verdicts(level7, {"web": ""}, ())) or {})


def _ask(session: EngineSession, case: Case) -> Iterator[str]:
    address = session.address(case.request.listener or "web")
    names = {str(address[1]): "(port)", **{str(x.port): "(endpoint's port)" for x in session.ready.stand_ins}}

    def plain(text: str) -> str:
        for pattern, instead in _VOLATILE:
            text = pattern.sub(instead, text)
        for number, name in names.items():
            text = re.sub(rf"\b{number}\b", name, text)
        return text.encode("unicode_escape").decode("ascii")

    if case.tcp is not None:
        with ClientConnection(address, timeout=_SECONDS) as stream:
            stream.send(case.tcp)
            stream.shutdown_write()
            got = stream.read_to_end().decode("latin-1")
            yield plain(f'bytes "{got}", then {stream.end}')
        return
    data = _data(case)
    method = "HEAD" if data.startswith(b"HEAD ") else "GET"
    yield from map(plain, _lines(exchange(address, data, method=method, timeout=_SECONDS)))


def _lines(answer: Answer) -> Iterator[str]:
    if answer.status is None:
        text = answer.raw[:_TEXT].decode("latin-1")
        yield f'no HTTP: "{text}"' if text else f"no answer, then {answer.after}"
        return
    yield f"HTTP/{answer.version} {answer.status} {answer.phrase}"
    if answer.interim:
        yield f"after {' '.join(map(str, answer.interim))}"
    endpoint = answer.header(NAME)
    account = account_of(answer)
    # The length of an account has the digits of ports in it.
    is_account = account is not None or (endpoint is not None and not answer.complete)
    for name, value in answer.headers:
        if name not in (NAME, SEEN) and not (name == "content-length" and is_account):
            yield f"{name}: {value}"
    for name, value in answer.trailers:
        yield f"trailer {name}: {value}"
    if endpoint is None or account is None:
        shown = answer.body[:_TEXT].decode("latin-1")
        yield f'body "{shown}"{"" if answer.complete else ", cut"}'
    if account is not None:
        yield f"{endpoint} received {account['method']} {account['target']} HTTP/{account['version']}"
        yield from (f"{_RECEIVED}{name}: {value}" for name, value in account["headers"])
        yield from (f"{_RECEIVED}trailer {name}: {value}" for name, value in account["trailers"])
        if account["body_length"]:
            yield f"{_RECEIVED}a body of {account['body_length']} bytes"


def sent(probe: str) -> bytes:
    """The bytes of a probe; empty for a name that is none."""
    return next((_data(case) for case in probes().cases if case.id == probe), b"")


def _data(case: Case) -> bytes:
    return case.tcp or case.raw or serialize(case.request)


def stored() -> tuple[str, ...]:
    """Names of stored fingerprints, such as `haproxy-3.2`."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read(path: Path) -> Fingerprint:
    """A fingerprint from a file; UsageError LB416 for a file that is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Fingerprint(data["engine"], data["version"], {k: tuple(v) for k, v in data["probes"].items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(Diagnostic("LB416", f"{path} is not a fingerprint: {error}")) from error


def read_stored(engine_name: str, version: str | None) -> Fingerprint:
    """The stored one of a version (3.2 or 3.2.26; None = the default).

    UsageError LB305 for an unknown version, LB416 where there is none.
    """
    supported = target_version(engine(engine_name), version)
    path = FOLDER / f"{engine_name}-{supported}.json"
    if not path.is_file():
        hint = f"stored: {', '.join(x for x in stored() if x.startswith(engine_name)) or 'none of this engine'}"
        raise UsageError(Diagnostic("LB416", f"there is no stored fingerprint of {engine_name} {supported}", hint=hint))
    return read(path)


def compare(before: Fingerprint, after: Fingerprint) -> tuple[ChangedProbe, ...]:
    """Probes that give other lines, and features whose verdict is another one; in the order of the probes."""
    found = []
    for name in dict.fromkeys((*before.probes, *after.probes)):
        old, new = before.probes.get(name, ()), after.probes.get(name, ())
        if old != new:
            gone, come = (tuple(x for x in a if x not in b) for a, b in ((old, new), (new, old)))
            found.append(ChangedProbe(name, gone or old, come or new))
    target = engine(before.engine)
    versions = [target_version(target, each.version) for each in (before, after)]
    for feature in all_features():
        old_verdict, new_verdict = (target.verdict(feature, version) for version in versions)
        if (old_verdict.level, old_verdict.note) != (new_verdict.level, new_verdict.note):
            texts = ((f"{x.level}: {x.note}".rstrip(": "),) for x in (old_verdict, new_verdict))
            found.append(ChangedProbe(f"verdict of {feature}", *texts))
    return tuple(found)

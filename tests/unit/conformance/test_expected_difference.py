"""A difference is excused only when it is exactly what a verdict states."""

import pickle

import pytest

from lbgen.conformance.case import CASES, case_files
from lbgen.conformance.difference import Kind, in_context, kind_of, late
from lbgen.conformance.expected_difference import (
    ROUTES,
    MissingDifferenceError,
    besides_everywhere,
    explained_by,
    explained_by_use,
    feature_of,
    is_known,
    matches,
)
from lbgen.conformance.prepare import DeclaredDifference
from lbgen.engines.api import EVERYWHERE, Level, engines
from lbgen.plan.features import Feature

NEAR = DeclaredDifference(
    "framing.malformed",
    "a note",
    differs=(("framing.malformed.bare_lf", ("accepted",)), ("framing.malformed.version", ("status 505", "text"))),
)


def test_the_feature_of_a_part() -> None:
    assert feature_of("framing.malformed.bare_lf") == "framing.malformed"
    assert feature_of("match.headers.regex.lines") == "match.headers.regex"
    assert feature_of("pool.sticky") == "pool.sticky"
    assert feature_of("nothing.known") == ""


def test_what_is_stated_is_excused_and_nothing_else() -> None:
    got = "reached an endpoint: b'{}'"
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [got]) == (NEAR,)
    left = "an answer of the proxy expected, an endpoint answered: b'{}'"
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [left]) == (NEAR,)
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [got, "took 900 ms, expected 0 to 10"]) == ()
    assert explained_by(["framing.malformed.folded"], [NEAR], [got]) == ()
    assert explained_by(["framing.malformed"], [NEAR], [got]) == ()
    assert explained_by(["statuses"], [NEAR], [got]) == ()
    two = ["status 505, expected 400", "body b'x', expected b'y'"]
    assert explained_by(["framing.malformed.version"], [NEAR], two) == (NEAR,)
    assert explained_by(["framing.malformed.version"], [NEAR], ["status 501, expected 400"]) == ()


def test_a_stated_value_is_that_value() -> None:
    assert not matches("header server: x", "answer: server: 'x/1' is there, expected none")


def test_a_stated_difference_must_show() -> None:
    with pytest.raises(MissingDifferenceError, match="accepted"):
        explained_by(["framing.malformed.bare_lf"], [NEAR], [])
    assert explained_by(["framing.malformed.folded"], [NEAR], []) == ()


def test_what_shows_at_times_need_not_show() -> None:
    words = (("statuses.failures.h2_close", ("at times: closed",)),)
    near = DeclaredDifference("statuses.failures", "a note", differs=words)
    assert explained_by(["statuses.failures.h2_close"], [near], []) == ()
    assert explained_by(["statuses.failures.h2_close"], [near], ["no answer: RST_STREAM 7; got b''"]) == (near,)
    assert explained_by(["statuses.failures.h2_close"], [near], ["status 504, expected 502"]) == ()


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("another rule", "pool api-v1, expected ['api-v2'] (route canary)"),
        ("another rule", "status 404 b'Not Found', expected an answer of ['api-v2']"),
        ("another rule", "status 302, expected 200 (route page)"),
        ("another rule", "answer: x-served-by is missing, expected 'canary'"),
        ("closed", "no answer: no answer head (closed); got b''"),
        ("closed", "second request, /p close: None no answer head (reset), expected 502"),
        ("open", "no answer and the connection stays open (no answer head (open))"),
        ("cut", "answer 200: the body does not end as its framing says (closed)"),
        ("no http", "no answer: status line '\\x00'; got b''"),
        ("time", late("took 3002 ms, expected 350 to 2200")),
        ("time", in_context("request 2 of 3: ", late("took 3002 ms, expected 350 to 2200"))),
        ("header x-hop", "to the endpoint: x-hop: '1' is there, expected none"),
        ("header x-hop", "answer: x-hop is missing, expected '1'"),
        ("header server: x", "answer: server: 'x' is there, expected none"),
        ("status 404", "status 404, expected 400 (no rule takes it)"),
    ],
)
def test_words(word: str, found: str) -> None:
    assert is_known(word)
    assert matches(word, found)
    assert not matches("text", found)


def test_a_sentence_about_a_time_is_not_enough() -> None:
    assert not matches("time", "took 3002 ms, expected 350 to 2200")


def test_kinds_survive_the_way_from_a_worker() -> None:
    found = pickle.loads(pickle.dumps(late("took 3002 ms")))  # noqa: S301  # our own
    assert (str(found), kind_of(found), kind_of("took 3002 ms")) == ("took 3002 ms", Kind.TIME, Kind.OTHER)


# How an engine refuses what is not well-formed is shown by the judge of safety.
SAFE = (
    Feature.FRAMING,
    Feature.MALFORMED,
    Feature.CONNECTION_NOMINATED,
    Feature.STATUSES,
    Feature.FAILURES,
    Feature.PATHS_STRICT,
)


def test_every_stated_part_is_tested_and_said_in_known_words() -> None:
    parts = {part for file in case_files() for case in file.cases for part in case.features}
    parts |= {str(feature) + any_case for feature in Feature for any_case in (ROUTES, EVERYWHERE)}
    verify = "".join(path.read_text() for path in (CASES.parent / "verify").glob("*.py"))  # has cases of its own
    for engine in engines().values():
        for version in engine.versions:
            for feature in Feature:
                verdict = engine.verdict(feature, version)
                states = verdict.level in (Level.HABIT, Level.APPROXIMATE)
                said = f"{engine.name} {version} {feature}: which part shows what?"
                assert feature in SAFE or bool(verdict.differs) == states, said
                for part, words in verdict.differs:
                    assert part in parts or f'"{part}"' in verify, (
                        f"{engine.name} {version} {feature}: no case is about {part}"
                    )
                    assert all(is_known(word) for word in words), words


def test_what_shows_in_every_request_is_not_counted() -> None:
    near = DeclaredDifference(
        "request_id",
        "no id",
        differs=(("request_id.everywhere", ("header x-request-id",)), ("request_id.a", ("time",))),
    )
    found = ["to the endpoint: x-request-id is missing", "took 2 ms, expected 0 to 1"]
    assert besides_everywhere([near], found) == found[1:]


def test_what_a_route_uses_explains_its_cases_if_nothing_else_differs() -> None:
    cors = DeclaredDifference("route.cors", "a", "r", differs=(("route.cors.routes", ("status 200",)),))
    respond = DeclaredDifference("route.respond", "b", "r", differs=(("route.respond.routes", ("text",)),))
    both = ["status 200, expected 204", "body b'OK', expected b''"]
    assert explained_by_use([cors, respond], both) == (cors, respond)
    assert explained_by_use([cors], both) == ()
    assert explained_by_use([cors], []) == ()


@pytest.mark.parametrize(
    ("target", "expected", "same"),
    [
        ("/caf%C3%A9", "/caf%c3%a9", True),
        ("/a?b&c", "/a?b;c", True),
        ("/a&b", "/a;b", False),
        ("/a", "/b", False),
    ],
)
def test_spelling(target: str, expected: str, same: bool) -> None:
    assert matches("spelling", f"to the endpoint: target {target!r}, expected {expected!r}") is same

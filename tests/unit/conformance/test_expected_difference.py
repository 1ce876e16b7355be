"""A difference is excused only when it is exactly what a verdict states."""

import pickle

import pytest

from lbgen.conformance.case import CASES, case_files
from lbgen.conformance.difference import Difference, Kind, as_difference, in_context, late
from lbgen.conformance.expected_difference import (
    ROUTES,
    MissingDifferenceError,
    besides_everywhere,
    explained_by,
    explained_by_use,
    feature_of,
    matches,
    word,
)
from lbgen.conformance.prepare import DeclaredDifference
from lbgen.engines.api import EVERYWHERE, Level, local_engines
from lbgen.plan.features import all_features

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


ACCEPTED = Difference(Kind.ACCEPTED, "reached an endpoint: b'{}'")
LATE = late("took 900 ms, expected 0 to 10")


def status(got: int, expected: int | str, **more: str) -> Difference:
    return Difference(Kind.STATUS, got, expected, **more)


def header(name: str, got: str | None, expected: str | None, place: str = "answer") -> Difference:
    return Difference(Kind.HEADER, got, expected, name, place)


def test_what_is_stated_is_excused_and_nothing_else() -> None:
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [ACCEPTED]) == (NEAR,)
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [status(200, 400)]) == (NEAR,)
    assert explained_by(["framing.malformed.bare_lf"], [NEAR], [ACCEPTED, LATE]) == ()
    assert explained_by(["framing.malformed.folded"], [NEAR], [ACCEPTED]) == ()
    assert explained_by(["framing.malformed"], [NEAR], [ACCEPTED]) == ()
    assert explained_by(["statuses"], [NEAR], [ACCEPTED]) == ()
    two = [status(505, 400), Difference(Kind.BODY, "b'x'", "b'y'")]
    assert explained_by(["framing.malformed.version"], [NEAR], two) == (NEAR,)
    assert explained_by(["framing.malformed.version"], [NEAR], [status(501, 400)]) == ()


def test_a_stated_value_is_that_value() -> None:
    assert not matches(word("header server: x"), header("server", "x/1", None))


def test_a_stated_difference_must_show() -> None:
    with pytest.raises(MissingDifferenceError, match="accepted"):
        explained_by(["framing.malformed.bare_lf"], [NEAR], [])
    assert explained_by(["framing.malformed.folded"], [NEAR], []) == ()


def test_what_shows_at_times_need_not_show() -> None:
    words = (("statuses.failures.h2_close", ("at times: closed",)),)
    near = DeclaredDifference("statuses.failures", "a note", differs=words)
    closed = Difference(Kind.CLOSED, "no answer: RST_STREAM 7; got b''")
    assert explained_by(["statuses.failures.h2_close"], [near], []) == ()
    assert explained_by(["statuses.failures.h2_close"], [near], [closed]) == (near,)
    assert explained_by(["statuses.failures.h2_close"], [near], [status(504, 502)]) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("another rule", Difference(Kind.POOL, "api-v1", "['api-v2']", why="route canary")),
        ("another rule", status(404, "an answer of ['api-v2']")),
        ("another rule", header("x-served-by", None, "canary")),
        ("closed", Difference(Kind.CLOSED, "no answer")),
        ("time", in_context("request 2 of 3", LATE)),
        ("header x-hop", header("x-hop", "1", None, "to the endpoint")),
        ("header x-*", header("x-hop", None, "1")),
        ("header", header("x-hop", None, "1")),
        ("header server: x", header("server", "x", None)),
        ("status 404", status(404, 400)),
        ("status", status(404, 400)),
        ("status None", Difference(Kind.STATUS, None, 200)),
        ("tries: 2", Difference(Kind.TRIES, 2, 1)),
        ("other", as_difference("no echo")),
    ],
)
def test_words(text: str, found: Difference) -> None:
    assert matches(word(text), found)
    assert not matches(word("text"), found)


@pytest.mark.parametrize("text", ["text: the body", "statuses 404", "", "at times:", "header x: "])
def test_no_words(text: str) -> None:
    with pytest.raises(ValueError, match="no word"):
        word(text)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (status(404, 400, why="no rule takes it"), "status 404, expected 400 (no rule takes it)"),
        (header("x-a", None, "1"), "answer: x-a is missing, expected '1'"),
        (header("x-a", None, ""), "answer: x-a is missing"),
        (header("x-a", "1", None), "answer: x-a: '1' is there, expected none"),
        (header("x-a", "1", "2", "to the endpoint"), "to the endpoint: x-a: '1', expected '2'"),
        (in_context("request 2 of 3", LATE), "request 2 of 3: took 900 ms, expected 0 to 10"),
        (
            Difference(Kind.TARGET, "/a", "/b", place="to the endpoint"),
            "to the endpoint: target '/a', expected '/b'",
        ),
        (Difference(Kind.TRIES, 1, 2, "tries", why="p-0"), "tries 1, expected 2 (p-0)"),
        (as_difference("no echo"), "no echo"),
    ],
)
def test_sentences(found: Difference, sentence: str) -> None:
    assert found.sentence == sentence


def test_what_a_busy_machine_shows_too() -> None:
    assert LATE.is_late
    assert status(504, 200).is_late
    assert Difference(Kind.TRIES, 0, 1).is_late
    assert not status(404, 200).is_late
    assert not Difference(Kind.TRIES, 1, 2).is_late


def test_records_survive_the_way_from_a_worker() -> None:
    assert pickle.loads(pickle.dumps(LATE)) == LATE  # noqa: S301  # our own


# How an engine refuses what is not well-formed is shown by the judge of safety.
SAFE = (
    "framing",
    "framing.malformed",
    "headers.connection_nominated",
    "statuses",
    "statuses.failures",
    "paths.strict",
)


def test_every_stated_part_is_tested_and_said_in_known_words() -> None:
    parts = {part for file in case_files() for case in file.cases for part in case.features}
    parts |= {feature + any_case for feature in all_features() for any_case in (ROUTES, EVERYWHERE)}
    verify = "".join(path.read_text() for path in (CASES.parent / "verify").glob("*.py"))  # has cases of its own
    for engine in local_engines().values():
        for version in engine.versions:
            for feature in all_features():
                verdict = engine.verdict(feature, version)
                states = verdict.level in (Level.HABIT, Level.APPROXIMATE)
                said = f"{engine.name} {version} {feature}: which part shows what?"
                assert feature in SAFE or bool(verdict.differs) == states, said
                for part, words in verdict.differs:
                    assert part in parts or f'"{part}"' in verify, (
                        f"{engine.name} {version} {feature}: no case is about {part}"
                    )
                    assert all(map(word, words)), words


def test_what_shows_in_every_request_is_not_counted() -> None:
    near = DeclaredDifference(
        "request_id",
        "no id",
        differs=(("request_id.everywhere", ("header x-request-id",)), ("request_id.a", ("time",))),
    )
    found = [header("x-request-id", None, "", "to the endpoint"), LATE]
    assert besides_everywhere([near], found) == found[1:]


def test_what_a_route_uses_explains_its_cases_if_nothing_else_differs() -> None:
    cors = DeclaredDifference("route.cors", "a", "r", differs=(("route.cors.routes", ("status 200",)),))
    respond = DeclaredDifference("route.respond", "b", "r", differs=(("route.respond.routes", ("text",)),))
    both = [status(200, 204), Difference(Kind.BODY, "b'OK'", "b''")]
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
    assert matches(word("spelling"), Difference(Kind.TARGET, target, expected)) is same

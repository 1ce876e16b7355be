"""Path policies: what is let in, and in which form it goes on."""

import pytest

from lbgen.plan.paths import PathError, accept_target, normalise_path, path_to_match
from lbgen.plan.policy import Paths, PathsMode
from lbgen.plan.request import RefusedError, Request, parse_request

NORMALIZE, VERBATIM = Paths(PathsMode.NORMALIZE), Paths(PathsMode.VERBATIM)
ODD = ("//a", "/a//", "/a/./b", "/a/..", "/a%2Fb", "/a%61", "/%2e", "/.%2E/a", "/a%5Cb", "/a%00", "/a%zz", "/a%2")


def let_in(paths: Paths) -> set[str]:
    found = set()
    for target in ODD:
        try:
            assert accept_target(target, paths) == target
        except PathError:
            continue
        found.add(target)
    return found


@pytest.mark.parametrize(
    ("paths", "passes"),
    [
        (Paths(), set()),
        (Paths(empty_segments=True), {"//a", "/a//"}),
        (Paths(encoded_slash=True), {"/a%2Fb"}),
        (Paths(encoded_unreserved=True), {"/a%61"}),
        (VERBATIM, set(ODD) - {"/a%zz", "/a%2", "/a%00", "/.%2E/a"}),
    ],
)
def test_each_exception_lets_in_its_own_kind_only(paths, passes) -> None:
    assert let_in(paths) == passes


@pytest.mark.parametrize(
    ("target", "passes"),
    [
        ("/a/..", True),
        ("//..", True),
        ("/a%2F.%2e", True),
        ("/..%25", True),
        ("/a?/../..", True),
        ("/..", False),
        ("/./..", False),
        ("/%2E%2e%2Fa", False),
        ("/a//../../..", False),
        ("/a/../../b/c", False),
    ],
)
def test_a_path_as_it_is_may_not_lead_above_the_root(target, passes) -> None:
    if passes:
        assert accept_target(target, VERBATIM) == target
    else:
        with pytest.raises(PathError, match="above the root"):
            accept_target(target, VERBATIM)


@pytest.mark.parametrize("target", ["/..%2Fa", "/a%2f..", "/a%2F.%2F", "/%2F./b"])
def test_dot_segments_between_escaped_slashes(target) -> None:
    with pytest.raises(PathError, match="dot segment"):
        accept_target(target, Paths(encoded_slash=True))


@pytest.mark.parametrize("paths", [Paths(), NORMALIZE, VERBATIM])
@pytest.mark.parametrize("target", ["/a#b", "/a b", "/\xe9", "/a?\x01", "/a\\b", "/a?b#c"])
def test_what_no_target_may_hold(paths, target) -> None:
    with pytest.raises(PathError):
        accept_target(target, paths)


@pytest.mark.parametrize("paths", [Paths(), NORMALIZE, VERBATIM])
def test_what_browsers_send_as_it_is(paths) -> None:
    for target in ('/a|b^c{d}"e<f>`', '/a?b|c^d{e}`f\\g"<h>[i]'):
        assert accept_target(target, paths) == target


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/%61%2D%7e", "/a-~"),
        ("//a///b//", "/a/b/"),
        ("/a/./b/.", "/a/b/"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/..", "/"),
        ("/a//../b", "/b"),
        ("/%2e/a/%2E%2e/b", "/b"),
        ("/a%20b%3f", "/a%20b%3f"),
        ("/...", "/..."),
    ],
)
def test_normal_form(path, form) -> None:
    assert normalise_path(path) == form
    assert normalise_path(form) == form
    assert accept_target(f"{path}?x=//../%61", NORMALIZE) == f"{form}?x=//../%61"


@pytest.mark.parametrize("path", ["/..", "/a/../..", "/../a", "/%2e%2e/", "/a/../../b", "//.."])
def test_above_the_root(path) -> None:
    with pytest.raises(PathError, match="above the root"):
        normalise_path(path)


@pytest.mark.parametrize("path", ["/a%2Fb", "/a%5c", "/a%00", "/%zz", "/%1F"])
def test_normalize_stays_strict_otherwise(path) -> None:
    with pytest.raises(PathError):
        accept_target(path, NORMALIZE)


def test_hex_case_counts_in_verbatim_only() -> None:
    assert path_to_match("/a%c3%a9", Paths()) == "/a%C3%A9"
    assert path_to_match("/a%c3%a9", VERBATIM) == "/a%c3%a9"


@pytest.mark.parametrize("name", ["Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"])
def test_headers_of_http1_may_not_stand_in_http2(name) -> None:
    head = (("Host", "h"), (name, "x"))
    with pytest.raises(RefusedError):
        parse_request(Request(headers=head, version="2"))


def test_http2_reads_cookies_as_one_line() -> None:
    head = (("Host", "h"), ("Cookie", "a=1"), ("X-A", "1"), ("Cookie", "b=2"))
    assert parse_request(Request(headers=head, version="2")).lines("cookie") == ("a=1; b=2",)
    assert parse_request(Request(headers=head)).lines("cookie") == ("a=1", "b=2")
    with pytest.raises(RefusedError, match="without a host"):
        parse_request(Request(version="2"))


@pytest.mark.parametrize(("path", "resolved"), [("/..", "/"), ("/%2e%2e/a", "/a"), ("/a/../../b/./c", "/b/c")])
def test_the_root_is_its_own_parent_where_a_path_is_clamped(path, resolved) -> None:
    assert normalise_path(path, clamped=True) == resolved
    with pytest.raises(PathError, match="above the root"):
        normalise_path(path)

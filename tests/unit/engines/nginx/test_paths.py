"""nginx: what its maps let in under each path policy, compared with the oracle."""

from __future__ import annotations

import random
import re

import pytest

from lbgen.engines.nginx.paths import _ambiguous, _normal, plain_request, well_formed_request
from lbgen.engines.nginx.support import NEW, OLD, VERSIONS
from lbgen.plan.paths import PathError, accept_target
from lbgen.plan.policy import Paths, PathsMode

PIECES = (
    "/",
    "//",
    "a",
    ".",
    "..",
    "%2e",
    "%2F",
    "%5c",
    "%61",
    "%7E",
    "%41",
    "%20",
    "%3A",
    "%zz",
    "%00",
    "x",
    "?q=//%2f",
    "%",
)
POLICIES = (
    Paths(empty_segments=True),
    Paths(encoded_slash=True),
    Paths(encoded_unreserved=True),
    Paths(empty_segments=True, encoded_slash=True, encoded_unreserved=True),
)


def targets() -> list[str]:
    chance = random.Random(7)
    return ["/" + "".join(chance.choices(PIECES, k=chance.randrange(7))) for _ in range(4000)]


def refused(paths: Paths, target: str, version: str = NEW) -> bool:
    return any(re.search(f"^[^?]*{way}", target) for way in _ambiguous(paths, VERSIONS[version]))


@pytest.mark.parametrize("paths", POLICIES)
def test_what_is_allowed_beside_strict(paths):
    for target in targets():
        try:
            accept_target(target, paths)
            fine = True
        except PathError:
            fine = False
        assert refused(paths, target) != fine, target


@pytest.mark.parametrize("version", [NEW, OLD])
def test_what_is_normalised_is_refused_or_in_that_form_or_made_so(version: str):
    """nginx 1.22 makes it so by itself; no escape may be left then that it would decode too."""
    paths = Paths(PathsMode.NORMALIZE)
    in_form = re.compile(_normal(VERSIONS[version]).entries[0].key.text)
    for target in targets():
        try:
            wanted = accept_target(target, paths)
        except PathError as error:
            why = str(error)
            wanted = None
        if wanted is None:
            assert refused(paths, target, version) or "above the root" in why, target
        elif in_form.search(target):
            assert wanted == target
            assert not refused(paths, target, version)
        elif version == OLD:
            assert refused(paths, target, OLD) or "%" not in wanted.partition("?")[0], target
        else:
            assert not refused(paths, target), target


@pytest.mark.parametrize("http2", [False, True])
def test_the_short_test_passes_only_requests_that_every_policy_accepts(http2: bool) -> None:
    plain = re.compile(plain_request(http2=http2).text)
    exact = re.compile(well_formed_request(http2=http2).text)
    chosen = random.Random(7)
    hosts = ("shop.example", "h:80", "h:59999", "10.0.0.1:8080", "h:65536", "", "-h", ".h", "a_b", "h:", "[::1]:80")
    passed = 0
    for _ in range(20_000):
        target = "/" + "".join(chosen.choices((*PIECES, '"', "\\", "b.c", "-", " "), k=chosen.randrange(5)))
        host, method = chosen.choice(hosts), chosen.choice(("GET", "POST", "get", "G-T"))
        line = f" {host} {method} {target} HTTP/{chosen.choice(('1.1', '1.0', '2.0', '0.9'))}"
        if not plain.search(line):
            continue
        passed += 1
        assert exact.search(line), line
        for policy in (Paths(), *POLICIES, Paths(PathsMode.NORMALIZE), Paths(PathsMode.VERBATIM)):
            assert accept_target(target, policy) == target, line
    assert passed > 500

"""nginx: what its maps let in under each path policy, compared with the oracle."""

from __future__ import annotations

import random
import re

import pytest

from lbgen.engines.nginx.paths import NORMAL_FORM, _ambiguous, unambiguous_targets
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


def refused(paths: Paths, target: str) -> bool:
    return any(re.search(f"^[^?]*{way}", target) for way in _ambiguous(paths))


@pytest.mark.parametrize("paths", POLICIES)
def test_what_is_allowed_beside_strict(paths):
    for target in targets():
        try:
            accept_target(target, paths)
            fine = True
        except PathError:
            fine = False
        assert refused(paths, target) != fine, target


def test_what_is_normalised_is_refused_or_in_that_form_or_made_so():
    """nginx makes it so by itself; no escape may be left then that it would decode too."""
    paths = Paths(PathsMode.NORMALIZE)
    in_form = re.compile(NORMAL_FORM)
    for target in targets():
        try:
            wanted = accept_target(target, paths)
        except PathError as error:
            why, wanted = str(error), None
        if wanted is None:
            assert refused(paths, target) or "above the root" in why, target
        elif in_form.search(target):
            assert wanted == target
            assert not refused(paths, target)
        else:
            assert refused(paths, target) or "%" not in wanted.partition("?")[0], target


def test_the_quick_test_passes_only_targets_that_every_policy_accepts() -> None:
    plain, exact = map(re.compile, unambiguous_targets(Paths()))
    chosen = random.Random(7)
    passed = 0
    for _ in range(20_000):
        target = "/" + "".join(chosen.choices((*PIECES, '"', "\\", "b.c", "-", " ", "#", "|"), k=chosen.randrange(5)))
        if not plain.search(target):
            continue
        passed += 1
        assert exact.search(target), target
        for policy in (Paths(), *POLICIES, Paths(PathsMode.NORMALIZE), Paths(PathsMode.VERBATIM)):
            if not set('|"\\') & set(target):
                assert accept_target(target, policy) == target, target
    assert passed > 500

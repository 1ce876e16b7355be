"""Every example, rendered for every engine that can, pleases the engines' own checkers; nginx also pleases gixy."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.api import local_engines
from lbgen.runtime.local.check import check
from tests.support.plans import examples
from tests.support.sample import sample

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = examples()
L7 = {"envoy", "haproxy", "nginx", "traefik"}
CAN = dict.fromkeys(EXAMPLES, L7) | {
    "postgres": L7 | {"nftables", "keepalived"},
    "direct-routing": L7 - {"haproxy"} | {"nftables"},
    "hybrid-edge/edge": {"envoy", "haproxy"},
}
MEDIUM = {"MEDIUM", "HIGH"}
# The contract preserves Host; HSTS comes with the edge profile, where there is TLS.
EXPECTED = {"host_spoofing", "hsts_header"}

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_engines_that_can_are_those_that_should(example: str) -> None:
    plan = EXAMPLES[example]
    for name in local_engines():
        if name in CAN[example]:
            assert lbgen.render(plan, engine=name)
        else:
            with pytest.raises(lbgen.LbgenError, match=r"is (refused by|approximate on)"):
                lbgen.render(plan, engine=name)


@pytest.mark.parametrize("name", local_engines())
@pytest.mark.parametrize("example", sample(EXAMPLES, ("hybrid-edge/edge", "postgres", "shop")))
def test_the_engine_accepts_it(example: str, name: str) -> None:
    if name not in CAN[example]:
        return  # refused, as the test above proves
    try:
        problems = check(EXAMPLES[example], name)
    except EngineError as absent:
        pytest.skip(str(absent))
    assert problems == ()


def expected(finding: dict[str, str]) -> bool:
    """Whether it is one that is meant so. The lines of a request whose Connection names fields are put together by a
    script, which refuses CR, LF and NUL in them (4-nominated.yaml tries); `set` in an `if` is safe, as all directives
    of the rewrite module are."""
    reason = finding.get("reason", "")
    if finding["plugin"] == "http_splitting":
        if finding["config"].startswith("add_header X-Connection-Options $response_options always;"):
            return True  # always empty: a script that has the effect, and no text
        return reason.count('variable "') == 1 and 'variable "$filtered_fields"' in reason
    if finding["plugin"] == "ssrf":  # each value of the map starts with the name of an upstream
        return reason.count('variable "') == 1 and 'variable "$filtered_to"' in reason
    if finding["plugin"] == "missing_resolver":  # a variable here names an upstream, whose servers are addresses
        return "'proxy_pass' uses a variable but no 'resolver'" in reason
    if finding["plugin"] == "if_is_evil":
        return 'Directive "set"' in reason and "if ($nominates)" in finding["config"]
    return finding["plugin"] in EXPECTED


@pytest.mark.parametrize("example", sample(EXAMPLES, ("content-platform", "shop")))
def test_gixy_finds_nothing(example: str, tmp_path: Path) -> None:
    pytest.importorskip("gixy")
    if "nginx" not in CAN[example]:
        return
    lbgen.render(EXAMPLES[example], engine="nginx").write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "gixy", "-f", "json", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    start = done.stdout.find("[")
    assert start >= 0, done.stderr
    found = [x for x in json.loads(done.stdout[start:]) if x["severity"] in MEDIUM and not expected(x)]
    assert found == []

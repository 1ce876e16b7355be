"""h2spec against each engine with lbgen's configuration and with the engine's own shortest one: none may be worse.

Needs the program h2spec (https://github.com/summerwind/h2spec) on PATH or in $LBGEN_H2SPEC; skipped without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from contextlib import ExitStack

import pytest

from lbgen.conformance.subject import subjects
from lbgen.engines.api import Level
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.features import Feature
from lbgen.plan.overlay import with_admin
from lbgen.runtime.certificates import throw_away
from lbgen.runtime.endpoints import StandIn, endpoints
from lbgen.runtime.local.ports import free_port
from lbgen.runtime.local.process import running
from tests import minimal

H2SPEC = os.environ.get("LBGEN_H2SPEC") or shutil.which("h2spec")
FIRST = int(os.environ.get("LBGEN_CONFORMANCE_PORTS", "24700"))
TOLD: list[str] = []
pytestmark = [
    pytest.mark.engines,
    pytest.mark.xdist_group("runtime"),
    pytest.mark.skipif(
        H2SPEC is None, reason="h2spec is not here (go install github.com/summerwind/h2spec/cmd/h2spec)"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _told(request):
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for line in TOLD:
            print(f"\nh2spec, {line}", end="")  # noqa: T201  # the record of this run


def failures(port: int, tls: bool, report) -> tuple[set[str], int]:
    """What failed, by section and title, and how many were run."""
    argv = [H2SPEC, "--host", "127.0.0.1", "--port", str(port), "--timeout", "1", "--junit-report", str(report)]
    subprocess.run([*argv, "--tls", "--insecure"] if tls else argv, capture_output=True, timeout=500, check=False)
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314  # h2spec's own file
    results = [(f"{c.get('package')}: {c.get('classname')}", c.find("failure"), c.find("error")) for c in cases]
    assert results, "h2spec ran nothing"
    return {name for name, *problems in results if any(p is not None for p in problems)}, len(results)


@pytest.mark.parametrize("listener", ["secure", "clear"])
@pytest.mark.parametrize("subject", [s for s in subjects() if s.engine in minimal.ENGINES], ids=lambda s: s.label)
def test_no_worse_than_the_engine_itself(subject, listener, tmp_path) -> None:
    if subject.binary is None:
        pytest.skip(subject.gap)
    target = engine_by_name(subject.engine)
    if target.verdict(Feature.HTTP2, subject.version).level is Level.REFUSED:
        pytest.skip(f"{subject.label} refuses HTTP/2")
    found = {}
    for whose in ("lbgen", "minimal"):
        port = free_port("127.0.0.1", FIRST)
        admin = free_port("127.0.0.1", port + 1)
        endpoint = free_port("127.0.0.1", admin + 1)
        ports = {"clear": 0, "secure": 0, listener: port}
        plan = with_admin(minimal.topology(**ports, endpoint=endpoint, folder=throw_away()), admin)
        if any(o.verdict.level is Level.REFUSED for o in target.objections(plan, subject.version)):
            pytest.skip(f"{subject.label} refuses HTTP/2 without TLS")
        own = minimal.rendered(subject.engine, subject.version, plan) if whose == "minimal" else None
        with ExitStack() as stack:
            stack.enter_context(endpoints([StandIn("p-0", "p", "127.0.0.1", endpoint)]))
            stack.enter_context(
                running(subject.engine, plan, subject.binary, version=subject.version, accept=("all",), rendered=own)
            )
            found[whose] = failures(port, listener == "secure", tmp_path / f"{whose}.xml")
    (ours, count), (theirs, _) = found["lbgen"], found["minimal"]
    TOLD.append(f"{subject.label} {listener}: lbgen {count - len(ours)}/{count}, minimal {count - len(theirs)}/{count}")
    assert ours <= theirs, f"worse than {subject.label} alone: {sorted(ours - theirs)}"

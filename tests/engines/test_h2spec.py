"""h2spec against each engine with lbgen's configuration and with the engine's own shortest one: none may be worse.

Where the shortest one fares better as it keeps bodies that lbgen streams, the shortest one that streams is asked too.

Needs the program h2spec (https://github.com/summerwind/h2spec) on PATH or in $LBGEN_H2SPEC; skipped without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.engines.api import Level
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.overlay import with_admin
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support import minimal
from tests.support.engine_lists import newest_first
from tests.support.sample import sample

if TYPE_CHECKING:
    from pathlib import Path

H2SPEC = os.environ.get("LBGEN_H2SPEC") or shutil.which("h2spec")
FIRST = int(os.environ.get("LBGEN_CONFORMANCE_PORTS", "24700"))
TOLD: list[str] = []
# h2spec sends nginx 16 MiB at once: the largest frame that it announces, whatever the window of the stream, 64 KiB. The
# shortest configuration takes it, as it keeps bodies; one that streams them, as lbgen's does, has to refuse it. With
# `client_body_buffer_size 16m` it would not, at 16 MiB of memory for each upload to a slow endpoint instead of 94 KiB.
KEPT = {"nginx": {"http2/4.2: Sends a DATA frame with 2^14 octets in length"}}
# h2spec's frame that is too large has five headers, 17 KiB. lbgen's buffers let HAProxy announce frames of 32 KiB; with
# headers of that many bytes it is too large for those as well.
HEADER = {"haproxy": 8000}
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


def failures(port: int, tls: bool, header: int, report: Path, section: str = "") -> tuple[set[str], int]:
    """What failed of a section (default: of everything), by section and title, and how many were run."""
    argv = [H2SPEC, *filter(None, [section]), "--host", "localhost", "--port", str(port), "--timeout", "1"]
    argv += ["--max-header-length", str(header)]
    argv += ["--junit-report", str(report), *(["--tls", "--insecure"] if tls else [])]
    for pause in (0, 1, 3):  # Traefik listens before it has read its certificates
        time.sleep(pause)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=500, check=False)
        if report.exists():
            break
    assert report.exists(), done.stdout[-500:] + done.stderr[-500:]
    text = re.sub(rb"[^\x09\x0a\x0d\x20-\x7e]", b"?", report.read_bytes())  # it holds answers as they came
    cases = ET.fromstring(text).iter("testcase")  # noqa: S314  # h2spec's own file
    results = [(f"{c.get('package')}: {c.get('classname')}", c.find("failure"), c.find("error")) for c in cases]
    assert results, "h2spec ran nothing"
    return {name for name, *problems in results if any(p is not None for p in problems)}, len(results)


@contextmanager
def served(subject, listener: str, whose: str):
    """The port of `listener`, served by lbgen's configuration, the shortest one (minimal), or that and streaming."""
    port = free_port("127.0.0.1", FIRST)
    admin = free_port("127.0.0.1", port + 1)
    endpoint = free_port("127.0.0.1", admin + 1)
    plan = with_admin(minimal.topology(**{listener: port}, endpoint=endpoint, folder=temporary_certificates()), admin)
    target = engine_by_name(subject.engine)
    if any(o.verdict.level is Level.REFUSED for o in target.objections(plan, subject.version)):
        pytest.skip(f"{subject.label} refuses HTTP/2 without TLS")
    own = None
    if whose != "lbgen":
        own = minimal.rendered(subject.engine, subject.version, plan, streams=whose == "streaming")
    with (
        stand_in_servers([StandIn("p-0", "p", "127.0.0.1", endpoint)]),
        run_engine(target, plan, subject.binary, version=subject.version, accept=("all",), rendered=own),
    ):
        yield port


@pytest.mark.parametrize("listener", sample(["secure", "clear"], ["secure"]))
@pytest.mark.parametrize("subject", newest_first(s for s in engines_on_host() if s.engine in minimal.ENGINES))
def test_no_worse_than_the_engine_itself(subject, listener, tmp_path) -> None:
    verdicts = [engine_by_name(subject.engine).verdict(f, subject.version) for f in ("listener.http2", "listener.tls")]
    if any(verdict.level is Level.REFUSED for verdict in verdicts):
        pytest.skip(f"{subject.label} refuses HTTP/2")
    tls, header = listener == "secure", HEADER.get(subject.engine, 4000)
    with served(subject, listener, "minimal") as port:
        theirs, _ = failures(port, tls, header, tmp_path / "minimal.xml")
    with served(subject, listener, "lbgen") as port:
        ours, count = failures(port, tls, header, tmp_path / "lbgen.xml")
        for name in sorted(ours - theirs):  # a busy machine is late at times, a wrong answer is always wrong
            for number in range(3):
                again, _ = failures(port, tls, header, tmp_path / f"{number}.xml", name.partition(":")[0])
                ours -= {name} - again
    told = f"{subject.label} {listener}: lbgen {count - len(ours)}/{count}, minimal {count - len(theirs)}/{count}"
    worse = ours - theirs
    if kept := worse & KEPT.get(subject.engine, set()):
        with served(subject, listener, "streaming") as port:
            streaming, _ = failures(port, tls, header, tmp_path / "streaming.xml")
        told += f", minimal that streams {count - len(streaming)}/{count}"
        assert kept <= streaming, "not because bodies are streamed"
        worse = ours - streaming
    TOLD.append(told)
    assert not worse, f"worse than {subject.label} alone: {sorted(worse)}"

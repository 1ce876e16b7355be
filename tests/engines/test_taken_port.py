"""A port that another stack of lbgen has: the finding names the place of the listener, and the stack."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import free_port

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("taken_port")]
TEXT = """\
version: 1
name: {0}
listeners:
  web:
    port: {1}
pools: {{ app: {{ endpoints: [{{ address: "10.0.0.1:80" }}] }} }}
routes: [{{ name: all, forward: app }}]
"""


def test_the_stack_that_has_the_port_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    port = free_port(start=23_000)
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(TEXT.format(file.stem, port))
    tmp_path.chmod(0o755)
    with (
        lbgen.up(lbgen.load(files[0]), engine="haproxy", runtime="local", accept=("all",)),
        pytest.raises(EngineError) as raised,
    ):
        lbgen.up(lbgen.load(files[1]), engine="haproxy", runtime="local", accept=("all",))
    [finding] = raised.value.diagnostics
    assert str(finding).startswith(f"{files[1]}:5:11: error LB404 listeners.web.port: port {port} is taken by haproxy")
    assert finding.message.endswith("; that is HAProxy of the stack a")
    assert finding.hint == "`lbgen down a`, or choose another port"

"""Every topology that `lbgen init` writes has no finding, no advice and no verdict that stops an L7 engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import lbgen
from lbgen.cli.main import group
from lbgen.spec.starter import starter, starters

if TYPE_CHECKING:
    from pathlib import Path

CAN = ("envoy", "haproxy", "nginx", "traefik")


@pytest.mark.parametrize("template", starters())
def test_a_starter_has_no_finding_and_every_engine_renders_it(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(group, ["init", "--template", template]).exit_code == 0
    topology = lbgen.load("topology.yaml")
    assert lbgen.check(topology) == ()
    for name in CAN:
        assert lbgen.render(topology, engine=name)
    with pytest.raises(lbgen.LbgenError, match="is refused by"):
        lbgen.render(topology, engine="nftables")


def test_starters_are_named() -> None:
    assert starters() == ("minimal", "canary", "gateway", "l4", "tenants", "tls", "websocket")
    with pytest.raises(KeyError):
        starter("nope")

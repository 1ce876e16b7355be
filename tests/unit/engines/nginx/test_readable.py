"""nginx.conf as an operator reads it: short, without scripts, and nothing that gixy warns of."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.runtime.common.certificates import write_self_signed

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOP = Path(__file__).parents[4] / "examples/shop/topology.yaml"
GATEWAY = Path(__file__).parent / "topologies/gateway.yaml"
TENANTS = {
    "version": 1,
    "name": "tenants",
    "listeners": {"web": {"port": 8080}},
    "pools": {f"p{n}": {"endpoints": [{"address": f"10.0.{n}.1:8080"}]} for n in range(30)},
    "routes": [{"name": f"r{n}", "hosts": [f"t{n}.example"], "forward": f"p{n}"} for n in range(30)],
}
# A variable in proxy_pass names an upstream, whose servers are addresses. Routes set HSTS; gixy reads servers alone.
_RESOLVER = "'proxy_pass' uses a variable but no 'resolver'"


@pytest.fixture
def gateway(tmp_path: Path) -> Path:
    """The topology beside a certificate."""
    shutil.copy(GATEWAY, tmp_path)
    write_self_signed(tmp_path / "gateway.crt", tmp_path / "gateway.key", ("api.example",))
    return tmp_path / GATEWAY.name


def lines(files: Mapping[str, str]) -> int:
    """What nginx reads: neither blank lines nor comments."""
    texts = (text for name, text in files.items() if name.endswith(".conf"))
    return sum(bool(line.strip()) and line.strip()[0] != "#" for text in texts for line in text.splitlines())


def test_lines_that_nginx_reads(gateway):
    for source, most in ((SHOP, 150), (gateway, 280), (TENANTS, 330)):
        files = dict(lbgen.render(lbgen.load(source), engine="nginx").items())
        assert lines(files) <= most, (source, lines(files))
        assert not [name for name in files if name.endswith(".js")]
        assert not any(word in text for text in files.values() for word in ("js_", "error_page 59"))


def test_gixy_finds_nothing(gateway, tmp_path):
    pytest.importorskip("gixy")
    for at, source in enumerate((SHOP, gateway)):
        folder = tmp_path / str(at)
        lbgen.render(lbgen.load(source), engine="nginx").write(folder)
        argv = (sys.executable, "-m", "gixy", "-f", "json", str(folder / "nginx.conf"))
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout[done.stdout.find("[") :])
        serious = [x for x in found if x["severity"] in ("MEDIUM", "HIGH") and _RESOLVER not in x["reason"]]
        assert [x for x in serious if x["plugin"] != "hsts_header"] == []

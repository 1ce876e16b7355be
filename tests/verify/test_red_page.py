"""`lbgen verify --html` of rendered files that a hand has changed: the page shows each difference as a curl line."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from lbgen.cli import exit_codes
from lbgen.cli.main import group
from lbgen.runtime.local import network

TEXT = """\
version: 1
name: red
profile: minimal
listeners: { web: { port: 8080 } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }] } }
routes:
  - { name: gone, match: [{ path: { exact: /gone } }], respond: { status: 410 } }
  - { name: rest, forward: app }
"""

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.skipif(bool(network.why_unavailable()), reason=network.why_unavailable() or "it is possible"),
]


def test_the_page_shows_the_difference_as_a_curl_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("red.yaml").write_text(TEXT, encoding="utf-8")
    done = CliRunner().invoke(group, ["render", "red.yaml", "-e", "haproxy", "-o", "out"])
    assert done.exit_code == 0, done.output
    file = Path("out/haproxy/haproxy.cfg")
    rendered = file.read_text(encoding="utf-8")
    assert "status 410" in rendered
    file.write_text(rendered.replace("status 410", "status 404"), encoding="utf-8")

    words = ["verify", "red.yaml", "-e", "haproxy", "--rendered", "out", "--faults", "0", "--html", "page.html"]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == exit_codes.DIFFERS, done.output
    page = Path("page.html").read_text(encoding="utf-8")
    curls = [html.unescape(each) for each in re.findall(r'<pre class="again">(curl .*?)</pre>', page, re.DOTALL)]
    assert any("/gone" in line for line in curls), curls
    assert "404" in page
    assert "410" in page
    assert "status 404" in page  # the file as it was edited

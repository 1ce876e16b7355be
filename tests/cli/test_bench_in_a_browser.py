"""The pages of `lbgen bench --html` in a headless Chromium, light on a screen and dark on a phone: charts and tables
are there and no part is wider than the window; a screenshot of each is among the test's output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lbgen.bench.faults import Fault
from lbgen.bench.faults.envelope import Envelope
from lbgen.bench.faults.report import Drill, Outcome
from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import DIRECT, Sample, UnmeasuredEngine, Why, rows_of
from lbgen.html.bench_page import bench_to_html, faults_to_html
from tests.cli.test_html_in_a_browser import BROWSER, DARK, WINDOWS, browse
from tests.unit.bench.test_faults import WINDOW, drilled, line
from tests.unit.bench.test_report import REASON, report, sender

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here (Debian's package chromium)")
SUBJECTS = {DIRECT: 30_000.0, "nginx": 14_000.0, "haproxy": 15_000.0, "envoy": 13_000.0, "traefik": 4_000.0}
# Written by the test alone: the page itself has no script and its policy would stop one.
PROBE = (
    "<script>document.title=[document.documentElement.scrollWidth-document.documentElement.clientWidth,"
    "document.querySelectorAll('svg').length,document.querySelectorAll('rect').length,"
    "document.querySelectorAll('polyline').length,document.querySelectorAll('table').length,"
    "[...document.querySelectorAll('svg *')].some(x=>x.getBBox().x+x.getBBox().width>640.5)].join(' ')</script></body>"
)


@pytest.fixture(scope="module")
def page() -> str:
    samples = []
    for part in (0.9, 1.0, 1.1):
        for shape in (LoadShape(50), LoadShape(250), LoadShape(250, 1000), LoadShape(250, 12574)):
            for name, rate in SUBJECTS.items():
                if shape.rate is None or rate > shape.rate:
                    p50 = part * 5000 / rate * (shape.rate or 1000) / 1000
                    load = Load(
                        4000, rate * part if shape.rate is None else shape.rate, p50, p50 * 6, 0, 0, p50 * 3, 50
                    )
                    samples.append((name, shape, Sample(load, None if name == DIRECT else 4000 / rate, 9.0)))
    return bench_to_html(report(rows_of(samples, sender), [UnmeasuredEngine.of("nftables", Why.LEFT_OUT, (REASON,))]))


@pytest.fixture(scope="module")
def faults_page() -> str:
    third = Envelope(1 / 3, "it gets 33% of the requests; not tried again elsewhere")
    some = tuple(line(lambda due: 1 <= due < 4 and round(due * 100) % 3 == 0))
    frozen = tuple(Outcome(x.due, 4 - x.due, 200) if x in some and x.failed else x for x in some)
    return faults_to_html(
        drilled(
            Drill.of("nginx", Fault.RESET, third, some, WINDOW, 100),
            Drill.of("haproxy", Fault.RESET, third, tuple(line(lambda due: 1 <= due < 2)), WINDOW, 100),
            Drill.of("nginx", Fault.FREEZE, Envelope(0.0, "the response time is longer", 3.0), frozen, WINDOW, 100),
            Drill.of("haproxy", Fault.FREEZE, Envelope(0.0, "the response time is longer", 3.0), reasons=(REASON,)),
        )
    )


# Two closed loops with two charts each, and two charts of latency; direct has no CPU. Of two faults three charts each,
# with a band and a line of each engine, and one of what may be in two of them.
@pytest.mark.parametrize(("name", "parts"), [("page", "0 6 18 10 4 false"), ("faults_page", "0 6 6 11 2 false")])
@pytest.mark.parametrize(("window", "scheme"), [("screen", "light"), ("phone", "dark")])
def test_it_reads_well(
    name: str, parts: str, window: str, scheme: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = request.getfixturevalue(name)
    path = tmp_path / "page.html"
    path.write_text(page.replace("default-src 'none'", "script-src 'unsafe-inline'").replace("</body>", PROBE), "utf-8")
    width, height = WINDOWS[window]
    image = Path(os.environ.get("LBGEN_SCREENSHOTS", tmp_path)) / f"bench-{name}-{window}-{scheme}.png"
    size = f"--window-size={width},{height}"
    shown = browse(path, tmp_path, size, *DARK[scheme], f"--screenshot={image}", "--dump-dom")
    png = image.read_bytes()
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (width, height)
    assert len(png) > 30_000  # an empty page has 10 kB
    print(f"\nscreenshot: {image}")  # noqa: T201  # among the test's output

    title = shown.partition("<title>")[2].partition("</title>")[0]
    assert title == parts


def test_it_needs_nothing_from_a_network(page: str, faults_page: str) -> None:
    for text in (page, faults_page):
        assert "default-src 'none'" in text
        assert not [word for word in ("http://", "https://", "<script", "url(", "@import") if word in text]

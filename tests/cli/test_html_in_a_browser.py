"""The page of `--html` in a headless Chromium, light on a screen and dark on a phone: no part is wider than the
window, and a screenshot of each is among the test's output (LBGEN_SCREENSHOTS names a folder to keep them in)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import lbgen
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.report import Report
from lbgen.conformance.verify.time_scaling import Scale
from lbgen.engines.api import engine_names
from lbgen.html.page import build_page, to_html

ROOT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WINDOWS = {"screen": (1500, 1400), "phone": (500, 1200)}  # Chromium has no narrower window
DARK = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0",)}
# Written by the test alone: the page itself has no script and its policy would stop one.
PROBE = (
    "<script>document.title=document.documentElement.scrollWidth-document.documentElement.clientWidth"
    "+' '+document.links.length+' '+getComputedStyle(document.body).backgroundColor</script></body>"
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here (Debian's package chromium)")


@pytest.fixture(scope="module")
def page() -> str:
    topology = lbgen.load(ROOT / "examples/shop/topology.yaml")
    again = "curl -sS --http1.1 -H 'host: shop.example' http://127.0.0.1:20000/api/" + "x" * 120
    results = [
        Result("nginx 1.31.3", "shop", f"4.query/{n}", "4.query", CaseState.PASS if n else CaseState.FAIL, why, again)
        for n, why in enumerate(("status 200, expected 404", "", ""))
    ]
    results += [Result("envoy 1.40.0", "shop", "3.strict/1", "3.strict", CaseState.APPROXIMATE, "differs so")]
    report = Report("shop", tuple(results), (), (), Scale(1.0, ()), "", 3.0)
    return to_html(build_page(topology, engine_names(), (), report, ["not tried: nothing"]))


def browse(path: Path, folder: Path, *options: str) -> str:
    """Run the browser on a page and return what it prints."""
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    argv = (str(BROWSER), *fixed, f"--user-data-dir={folder / 'profile'}", *options, path.as_uri())
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("window", "scheme"), [("screen", "light"), ("phone", "dark")])
def test_it_reads_well(page: str, window: str, scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    probed = page.replace("default-src 'none'", "script-src 'unsafe-inline'").replace("</body>", PROBE)
    path.write_text(probed, encoding="utf-8")
    width, height = WINDOWS[window]
    folder = Path(os.environ.get("LBGEN_SCREENSHOTS", tmp_path))
    image = folder / f"{window}-{scheme}.png"
    size = f"--window-size={width},{height}"
    shown = browse(path, tmp_path, size, *DARK[scheme], f"--screenshot={image}", "--dump-dom")
    png = image.read_bytes()
    assert png.startswith(b"\x89PNG")
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (width, height)
    assert len(png) > 30_000  # an empty page has 10 kB
    print(f"\nscreenshot: {image}")  # noqa: T201  # among the test's output

    title = shown.partition("<title>")[2].partition("</title>")[0]
    wider, links, background = title.split(" ", 2)
    assert int(wider) == 0, "the page is wider than the window"
    assert int(links) > 100
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]


def test_its_policy_stops_scripts(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", PROBE), encoding="utf-8")
    assert "<title>shop: lbgen report</title>" in browse(path, tmp_path, "--dump-dom")

"""What all tests share: `--update-golden` rewrites the files that tests compare with."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import tempfile
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest

from lbgen.installed import engine_names
from lbgen.runtime.local import network

# A worker holds thousands of tests, and each collection of garbage looked at all of them: a fifth of what it computed.
gc.set_threshold(50_000, 20, 100)

hypothesis.settings.register_profile("lbgen", deadline=None)  # beside others an example may take any time
hypothesis.settings.load_profile("lbgen")

# Where it can be, each worker is in a network of its own, so that fixed ports are free in each of them; not where what
# docker publishes is asked (tests/phases.py says so).
_NETWORKS = not network.why_unavailable() and shutil.which("ip") is not None
if _WORKER := os.environ.get("PYTEST_XDIST_WORKER"):
    # Stacks of one name in two workers are two stacks.
    os.environ["LBGEN_STATE_DIR"] = tempfile.mkdtemp(prefix=f"lbgen-{_WORKER}-")
    atexit.register(shutil.rmtree, os.environ["LBGEN_STATE_DIR"], ignore_errors=True)
    number = int(_WORKER.removeprefix("gw"))
    # More than the offsets of all modules (tests/support/daemon.py: first_port), or two workers have the same ports.
    os.environ["LBGEN_DOCKER_PORTS"] = str(int(os.environ.get("LBGEN_DOCKER_PORTS", "10600")) + 2_000 * number)
    if _NETWORKS and os.environ.get("LBGEN_TEST_NETWORK") != "host":
        network.enter()
        for change in ("link set lo up", "address add 192.0.2.1/32 dev lo", "route add default dev lo src 192.0.2.1"):
            subprocess.run(("ip", *change.split()), check=True)  # nobody answers at other addresses
    else:
        first = 27_000 + 1_400 * (number % 4)  # apart from those fixed in tests
        os.environ["LBGEN_CONFORMANCE_PORTS"] = str(first)

_PHASE = os.environ.get("LBGEN_TEST_PHASE", "")  # tests/phases.py: the mark of the tests that run
if _PHASE not in ("", "containers"):
    os.environ["DOCKER_HOST"] = "unix:///nowhere"  # tests of containers run at the same time, and their stacks
# Folders of tests that run engines and wait for them: on ports that a test names, and on free ones.
_FIXED_PORTS, _BY_ENGINES = ("engines", "verify"), ("conformance", "differential")
_STARTED_ONCE = ("clients", "kubernetes")  # folders of tests that share what takes long to start
_EARLIER = 0.6  # of the run, within which the tests of these files begin
_LONGEST = frozenset(
    {
        "test_checks_in_ci.py",
        "test_wheel.py",
        "test_docker_own_image.py",
        "test_docker_preview.py",
        "test_docker_reload.py",
        "test_docker_joined.py",
        "test_docker_direct.py",
        "test_docker_metrics.py",
        "test_topologies.py",
        "test_local_faults.py",
        "test_metrics.py",
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--topologies", type=int, default=1, help="random topologies to verify (tests/differential)")
    parser.addoption("--topologies-seed", type=int, default=1, help="draws them")
    parser.addoption("--topologies-first", type=int, default=1, help="number of the first one: goes on with a run")
    parser.addoption("--topologies-at-once", type=int, default=1, help="so many side by side")
    parser.addoption("--topologies-log", default="", help="file that gets a line of JSON for each")
    parser.addoption("--drills", action="store_true", help="all of what is a sample else (make drills: hours)")
    parser.addoption("--daemon-drill", action="store_true", help="kill and restart the docker daemon of this machine")
    parser.addoption("--update-golden", action="store_true", help="rewrite expected files, then read the diff")


def _check_entry_points() -> None:
    """What is installed in this environment has the entry points of this checkout."""
    written = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    if missing := written["project"]["entry-points"]["lbgen.engines"].keys() - set(engine_names()):
        again = "python -m pip install --no-deps --no-build-isolation -e ."
        raise pytest.UsageError(f"{', '.join(missing)}: not installed in this environment; run `{again}` in it again")


def pytest_configure() -> None:
    """A run in the background of a shell begins with signals ignored, and so would all that it starts."""
    _check_entry_points()
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture
def every(request: pytest.FixtureRequest) -> bool:
    """Whether all is tried of what is a sample else."""
    return bool(request.config.getoption("--drills"))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Files without a test of the phase that runs are not read: reading all costs each worker seconds."""
    read = _PHASE and collection_path.name.startswith("test_") and _PHASE not in _phases_of(collection_path)
    return True if read else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which phase of tests/phases.py a test belongs to, which ones `make test` leaves out, and their order."""
    drill = pytest.mark.skip(reason="a drill, of make drills (--drills)")
    for item in items:
        phase = _phase(item)
        if phase not in _phases_of(item.path):
            raise pytest.UsageError(f"{item.nodeid} belongs to the phase {phase}, which does not read its file")
        item.add_marker(phase)
        if _folder(item.path) in _FIXED_PORTS:
            item.add_marker(pytest.mark.xdist_group("runtime"))
        elif phase == "clients":
            item.add_marker(pytest.mark.xdist_group(_subject(item) or "clients"))
        if (phase == "measures" or item.get_closest_marker("drill")) and not config.getoption("--drills"):
            item.add_marker(drill)
    places = _places(items)
    items.sort(key=lambda item: places[item])
    gc.collect()
    gc.freeze()  # the tests stay to the end


def _places(items: list[pytest.Item]) -> dict[pytest.Item, float]:
    """The tests of each file are spread evenly over the run, so that those side by side are of different kinds.

    All that wait for times at once leave the CPUs idle, and all that use a CPU at once make each other late. Tests of a
    file with fixtures that they share stay together. Those of files with the longest tests come earlier, since the last
    test of a run has the CPUs for itself.
    """
    places: dict[pytest.Item, float] = {}
    for file, group in groupby(sorted(items, key=lambda item: str(item.path)), key=lambda item: item.path):
        tests = sorted(group, key=_subject)
        begin = crc32(file.name.encode()) / 2**32
        together = 'scope="module"' in file.read_text(encoding="utf-8")
        part = _EARLIER if file.name in _LONGEST else 1.0
        for number, item in enumerate(tests):
            places[item] = part * (begin if together else (number + begin) / len(tests))
    return places


def _subject(item: pytest.Item) -> str:
    """The engine of a case of conformance: its cases side by side would be of one file, all health checks at once."""
    subject = item.callspec.params.get("subject") if hasattr(item, "callspec") else None
    return str(getattr(subject, "label", ""))


def _phase(item: pytest.Item) -> str:
    folder = _folder(item.path)
    if _for_docker(item.path) or item.get_closest_marker("packaging"):
        return "containers"  # they need the network of the host
    if item.get_closest_marker("measures"):
        return "measures"
    if folder in _STARTED_ONCE:
        return "clients"
    serves = folder in (*_FIXED_PORTS, *_BY_ENGINES) or any(map(item.get_closest_marker, ("xdist_group", "root")))
    return "serves" if serves else "computes"


@cache
def _phases_of(file: Path) -> frozenset[str]:
    """The phases that the tests of `file` may belong to, by its folder and the marks that its text names."""
    if _for_docker(file):
        return frozenset({"containers"})
    text = file.read_text(encoding="utf-8")
    by_mark = {"packaging": "containers", "measures": "measures", "root": "serves", "xdist_group": "serves"}
    by_folder = dict.fromkeys(_STARTED_ONCE, "clients") | dict.fromkeys((*_FIXED_PORTS, *_BY_ENGINES), "serves")
    found = {phase for mark, phase in by_mark.items() if f"mark.{mark}" in text}
    return frozenset(found | {by_folder.get(_folder(file), "computes")})


def _for_docker(file: Path) -> bool:
    return _folder(file) != "unit" and file.name.startswith(("test_docker_", "test_containers"))


@cache
def _folder(file: Path) -> str:
    """The folder of tests/ that holds it, at whatever depth."""
    return file.relative_to(Path(__file__).parent).parts[0]

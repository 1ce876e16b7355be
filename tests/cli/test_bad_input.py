"""Whatever the command line and the files hold: a finding or a usage error, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from lbgen.cli import exit_codes
from lbgen.cli.main import VERBS, group
from lbgen.cli.output import adapt_output

ROOT = Path(__file__).parents[2]
SHOP = str(ROOT / "examples/shop/topology.yaml")
SMALL = str(ROOT / "tests/docs/topologies/canary.yaml")
JUNK = (
    "",
    "-",
    "--",
    "-1",
    "0",
    "nope",
    "a/b",
    "..",
    "/",
    "\u00e9\u2026",
    "\udcff",
    "a\nb",
    "x" * 5000,
    "${X}",
    "[",
    "LB101",
    "%s",
)
# Verbs that do nothing but read, on a topology that is fine, with the arguments they need.
READERS = {
    "check": [SMALL, "--no-engines"],
    "explain": [SMALL],
    "render": [SMALL, "-e", "nginx"],
    "route": [SMALL, "GET", "http://localhost:8080/"],
    "diff": [SMALL, SMALL],
    "schema": [],
    "init": ["-"],
}
WRITERS = {"output", "file"}  # parameters that name what is written


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A folder, a state directory and no daemon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    monkeypatch.setenv("NO_COLOR", "1")


def run(*args: str) -> None:
    """Run a command line in this process; fails on any exception that `main` does not expect."""
    adapt_output()
    with suppress(click.ClickException, click.exceptions.Exit, OSError, SystemExit):
        group.main([*args], standalone_mode=False)


def bad_files(folder: Path) -> list[str]:
    """Paths of what is no topology."""
    texts = {
        "empty.yaml": b"",
        "binary.yaml": bytes(range(256)),
        "list.yaml": b"- 1\n- 2\n",
        "text.yaml": b"hello",
        "null.yaml": b"null\n",
        "half.yaml": b"version: 1\nname: x\nlisteners: { web:",
        "types.yaml": b"version: 1\nname: [x]\nlisteners: 5\npools: [a]\nroutes: {a: b}\nengines: 7\n",
        "json.yaml": b'{"version": 1, "name": "x", "routes": [null]}',
        "nul\xc3\xa9.yaml": b"\xef\xbb\xbfversion: 1\n\x00",
    }
    for name, content in texts.items():
        (folder / os.fsdecode(name.encode("latin-1"))).write_bytes(content)
    (folder / "folder.yaml").mkdir()
    (folder / "loop.yaml").symlink_to("loop.yaml")
    closed = folder / "closed.yaml"
    closed.write_text("version: 1\n", encoding="utf-8")
    closed.chmod(0)
    return [
        *(str(path) for path in folder.iterdir()),
        "nothing.yaml",
        "",
        "\udcff.yaml",
        "/dev/null",
        "x" * 5000,
    ]


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("init", "schema", "images", "agent")])
def test_files_that_are_no_topology(verb, tmp_path, capsys):
    folder = tmp_path / "bad"
    folder.mkdir()
    for file in bad_files(folder):
        more = {"route": ["GET", "/"], "diff": [SHOP]}.get(verb, [])
        run(verb, file, *more)
    assert "Traceback" not in "".join(capsys.readouterr())


def test_folders_and_orders_that_the_agent_cannot_use(tmp_path, capsys):
    run("agent", "nothing")
    for name, content in {"a": b"{}", "b": b"\xff\0", "c": b"[]", "d": None}.items():
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "agent.json").write_bytes(content)
        assert group.main(["agent", str(tmp_path / name)], standalone_mode=False) == exit_codes.ENGINE
        assert "LB410" in capsys.readouterr().err
    (tmp_path / "d/agent.json").mkdir()
    assert group.main(["agent", str(tmp_path / "d")], standalone_mode=False) == exit_codes.ENGINE
    assert "LB410" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        *(["init", place] for place in ("/", "nothing/x", "/proc/x", "/dev/full")),
        *(["schema", "-o", place] for place in ("/", "nothing/x", "/proc/x", "/dev/full")),
        *(["render", SHOP, "-e", "haproxy", "-o", place] for place in ("/proc/x", "/dev/full")),
    ],
    ids=" ".join,
)
def test_places_that_cannot_be_written(line):
    done = lbgen(*line)
    assert b"Traceback" not in done.stderr
    assert done.returncode in (2, 3), done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_a_drain_time_that_is_no_number():
    done = lbgen("up", SHOP, "--drain", "nan")
    assert done.returncode == 2
    assert b"is not a number of seconds" in done.stderr


@pytest.mark.parametrize("verb", READERS)
def test_junk_in_every_argument(verb, capsys):
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    for parameter in command.params:
        if "--watch" in parameter.opts:
            continue  # it has no value, and does not end
        if isinstance(parameter, click.Option) and parameter.is_flag:
            run(verb, *READERS[verb], parameter.opts[0])
            continue
        for junk in JUNK:
            if isinstance(parameter, click.Option):
                if parameter.name not in WRITERS or junk not in ("-",):
                    run(verb, *READERS[verb], parameter.opts[0], junk)
            else:
                place = [p for p in command.params if isinstance(p, click.Argument)].index(parameter)
                flags = [word for word in READERS[verb] if word.startswith("--")]
                line = [word for word in READERS[verb] if word not in flags]
                if place < len(line):
                    line[place] = junk
                run(verb, *flags, *(["--"] if junk.startswith("-") else []), *line)
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("verb", ["ps", "down", "logs", "stats", "reload"])
def test_junk_where_a_stack_is_named(verb):
    for junk in JUNK:
        run(verb, "--", junk)


def lbgen(*args: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "lbgen", *args],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        timeout=120,
    )


ENCODINGS = {
    "posix": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "cp437": {"PYTHONIOENCODING": "cp437:strict"},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_output_that_cannot_hold_every_character_degrades(encoding, tmp_path):
    path = tmp_path / "caf\u00e9.yaml"
    path.write_text(
        Path(SHOP).read_text(encoding="utf-8").replace('body: "ok\\n"', 'body: "\u2026\u65e5\u672c"'), encoding="utf-8"
    )
    assert "\u65e5" in path.read_text(encoding="utf-8")
    bad = tmp_path / "b.yaml"
    bad.write_text("version: 1\nname: \u65e5\u672c\n", encoding="utf-8")
    lines = [
        ["explain", SHOP],
        ["check", str(path), "--no-engines"],
        ["check", str(bad)],
        ["render", str(path), "-e", "nginx", "--json"],
        ["render", str(path), "-e", "haproxy"],
        ["route", str(path), "GET", "http://shop.example:8080/health", "--json"],
        ["diff", SHOP, str(path)],
        ["schema"],
        ["init", "-"],
        ["ps"],
        ["--help"],
    ]
    for line in lines if encoding == "posix" else lines[:4]:
        done = lbgen(*line, **ENCODINGS[encoding])
        assert b"Traceback" not in done.stderr, (line, done.stderr)
        assert done.returncode in (0, 1, 4), (line, done.stderr)
        if "--json" in line:
            import json

            assert json.loads(done.stdout.decode({"posix": "ascii"}.get(encoding, encoding)))
    if encoding == "posix":
        assert b"\xe2" not in lbgen("explain", SHOP, **ENCODINGS[encoding]).stdout


BROKEN = """
import lbgen.cli.diff
from lbgen.cli.main import main


def fail(record):
    raise KeyError("x")


lbgen.cli.diff.print_json = fail
main()
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_lbgen_is_one_line_unless_it_is_debugged(debug):
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, "diff", SHOP, SHOP, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LBGEN_DEBUG": "1" if debug else ""},
    )
    assert ("Traceback" in done.stderr) == debug
    if not debug:
        assert done.returncode == 5
        assert "internal error" in done.stderr
        assert "KeyError" in done.stderr
        assert len(done.stderr.splitlines()) == 1

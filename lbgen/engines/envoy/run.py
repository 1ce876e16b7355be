"""Rendered files in a folder -> how Envoy runs them and how it checks them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from lbgen.engines.api import BinaryHint, CheckSpec, ProcessSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lbgen.engines.api import Binary

FILE = "envoy.yaml"
ENDPOINTS = "endpoints/"  # files that Envoy reads again when they are exchanged by renaming
STATUS_PATH = "/clusters?format=json"
# The old process closes connections after their next answer. What is left of them (tunnels) it ends one by one in the
# last third of the drain time, TCP after it: none before ten minutes are over. Or all when the next but one begins, as
# Envoy knows two at a time.
_HOT_RESTART = (
    *("--restart-epoch", "{epoch}", "--drain-strategy", "immediate"),
    *("--drain-time-s", "1000", "--parent-shutdown-time-s", "1010"),
)
_BASES = 400_000_000  # Envoy has it ten times in 32 bits
BINARIES: tuple[BinaryHint, ...] = (BinaryHint("envoy", "envoy", "_bin/envoy", ("--version",), r"/(\d+\.\d+\.\d+)/"),)


def build_process_spec(binary: Binary, directory: Path, access_log: str, admin: int | None) -> ProcessSpec:
    """Envoy in the foreground; the shared memory of hot restarts only where another process can take over."""
    # `misc` would warn at each start that allow_custom_methods is work in progress.
    argv: tuple[str, ...] = (str(binary.path), "-c", FILE, "-l", "warn", "--component-log-level", "misc:error")
    if access_log:
        argv += ("--file-flush-interval-msec", "500")  # ms; the default holds lines back for 10 s
    # Tells its shared memory and sockets from those of others, in another folder or beside it in one network.
    shared = zlib.crc32(f"{directory}{admin or ''}".encode()) % _BASES
    return ProcessSpec(
        (*argv, "--disable-hot-restart"),
        successive=(*argv, *_HOT_RESTART, "--base-id", str(shared)),
        leftovers=(f"/dev/shm/envoy_shared_memory_{shared}0",),  # noqa: S108  # where it keeps them
        access_log=access_log,
        fixed=(FILE,),
        watched=(ENDPOINTS,),
        dies_with_parent=True,  # where it can be succeeded
    )


def build_check_spec(binary: Binary, directory: Path) -> CheckSpec:
    """`--mode validate`, which also compiles every regex."""
    del directory
    argv = (str(binary.path), "--mode", "validate", "-c", FILE, "--disable-hot-restart", "-l", "error")
    return CheckSpec(argv, judge)


def judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    """The complaints among the lines of output; one line at least when Envoy refused."""
    del answers
    if code == 0:
        return ()
    lines = tuple(line.partition("] ")[2] or line for line in output.splitlines() if line.strip())
    return lines or (f"envoy --mode validate ended with {code}",)

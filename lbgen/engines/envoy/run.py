"""Processes: how Envoy runs the rendered files, and how it checks them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

from lbgen.engines.api import Binary, BinaryHint, CheckSpec, ProcessSpec

FILE = "envoy.yaml"
LIVE = "live/"  # files that Envoy reads again when they are replaced by a rename
STATUS_PATH = "/clusters?format=json"
STATS_PATH = "/stats?filter=version_text%7Cupdate_rejected%7Cupdate_failure%7Cwarming"
# The old process closes connections after their next response. It ends the rest (tunnels) one by one in the last third
# of the drain time, then TCP: none before ten minutes are over, or all when the next hot restart but one begins,
# because Envoy supports two processes at a time.
_HOT_RESTART = (
    *("--restart-epoch", "{epoch}", "--drain-strategy", "immediate"),
    *("--drain-time-s", "1000", "--parent-shutdown-time-s", "1010"),
)
_BASES = 400_000_000  # Envoy stores ten times this number in 32 bits
BINARIES: tuple[BinaryHint, ...] = (BinaryHint("envoy", "envoy", "_bin/envoy", ("--version",), r"/(\d+\.\d+\.\d+)/"),)
_DRAIN = "/healthcheck/fail"  # answers then say that their connection ends


def build_process_spec(binary: Binary, directory: Path, admin: int | None, *, logs: bool) -> ProcessSpec:
    """Envoy in the foreground; it uses the shared memory of hot restarts only where another process can take over."""
    # At `misc` warn, Envoy would log at each start that allow_custom_methods is work in progress.
    argv: tuple[str, ...] = (str(binary.path), "-c", FILE, "-l", "warn", "--component-log-level", "misc:error")
    if logs:
        argv += ("--file-flush-interval-msec", "500")  # ms; by default lines are held for 10 s
    # Separates its shared memory and sockets from those of stacks in other folders or on other admin ports.
    shared = zlib.crc32(f"{directory}{admin or ''}".encode()) % _BASES
    return ProcessSpec(
        (*argv, "--disable-hot-restart"),
        hot_restart_argv=(*argv, *_HOT_RESTART, "--base-id", str(shared)),
        drain_path="" if admin is None else _DRAIN,
        cleanup=(f"/dev/shm/envoy_shared_memory_{shared}0",),  # noqa: S108  # where it keeps them
        fixed=(FILE,),
        watched=(LIVE,),
        dies_with_parent=True,  # only in hot-restart mode
    )


def build_check_spec(binary: Binary, directory: Path) -> CheckSpec:
    """`--mode validate`, which also compiles every regex."""
    del directory
    argv = (str(binary.path), "--mode", "validate", "-c", FILE, "--disable-hot-restart", "-l", "error")
    return CheckSpec(argv, judge)


def judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    """The lines of output that report a problem; at least one line if Envoy refused the files."""
    del answers
    if code == 0:
        return ()
    lines = tuple(line.partition("] ")[2] or line for line in output.splitlines() if line.strip())
    return lines or (f"envoy --mode validate ended with {code}",)

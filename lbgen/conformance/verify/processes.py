"""Orders -> one process each, all at once, and what they told; none outlives this one."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from lbgen.conformance.verify.order import Broken, Finished, Order, Told
from lbgen.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from socket import socket

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lbgen.conformance.verify.worker import main; main(json.loads(sys.argv[2]))"
)
_STOP_SECONDS = 15.0


def together(orders: Sequence[Order], progress: Callable[[Told], None]) -> list[Finished | Broken]:
    """Every order in a process of its own; what became of each, in the order of `orders`."""
    pairs = [socketpair() for _ in orders]
    path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
    with TemporaryFile() as said:
        # One process reads our modules and becomes one for each order: reading takes longer than many a case.
        process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-c", _BOOT, path, json.dumps([theirs.fileno() for _, theirs in pairs])],
            pass_fds=[theirs.fileno() for _, theirs in pairs],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd="/",
        )
        for _, theirs in pairs:
            theirs.close()
        with ThreadPoolExecutor(len(orders)) as pool:
            ended = list(pool.map(lambda order, pair: _one(order, pair[0], progress), orders, pairs))
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace").strip()
    silent = (Diagnostic("LB403", f"the process that verified it ended:\n{text}"),)
    return [each or Broken(order.engine, silent) for order, each in zip(orders, ended, strict=True)]


def _one(order: Order, ours: socket, progress: Callable[[Told], None]) -> Finished | Broken | None:
    """What the order's process tells at last; None when it ends without a word."""
    with Connection(ours.detach()) as pipe:
        try:
            pipe.send(order)
            found: Finished | Broken | Told = pipe.recv()
            while isinstance(found, Told):
                progress(found)
                found = pipe.recv()
        except (EOFError, OSError):
            return None
    return found

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

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lbgen.conformance.verify.worker import main; main(int(sys.argv[2]))"
)
_STOP_SECONDS = 15.0


def together(orders: Sequence[Order], progress: Callable[[Told], None]) -> list[Finished | Broken]:
    """Every order in a process of its own; what became of each, in the order of `orders`."""
    with ThreadPoolExecutor(len(orders)) as pool:
        return list(pool.map(lambda order: _one(order, progress), orders))


def _one(order: Order, progress: Callable[[Told], None]) -> Finished | Broken:
    ours, theirs = socketpair()
    path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
    with theirs, TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-c", _BOOT, path, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd="/",
        )
        theirs.close()
        with Connection(ours.detach()) as pipe:
            try:
                pipe.send(order)
                found: Finished | Broken | Told = pipe.recv()
                while isinstance(found, Told):
                    progress(found)
                    found = pipe.recv()
            except (EOFError, OSError):
                said.seek(0)
                text = said.read().decode("utf-8", "replace").strip()
                found = Broken(order.engine, (Diagnostic("LB403", f"the process that verified it ended:\n{text}"),))
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return found

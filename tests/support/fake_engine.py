"""An engine for tests of the runtime: a small Python server behind the protocol that real engines implement.

It reads its config (JSON), listens on the plan's ports and answers 200 with the route's name, or 404.
`hosts` holding `die.example` makes it print a reason and exit, `slow.example` makes it never listen.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.engines.api import NATIVE, Binary, BinaryHint, CheckSpec, Images, ProcessSpec, RenderedFile

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

# The engines' user may be nobody, who cannot enter a home folder where an interpreter may lie.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
SERVER = f"""#!{PYTHON} -I
import json, os, socket, sys, threading, time
if "-v" in sys.argv:
    print("fakelb/1.0.3")
    raise SystemExit
config = json.load(open("fake.json"))
if "-t" in sys.argv:
    bad = "bad.example" in config["hosts"]
    print("fake.json:3 unhappy" if bad else "ok")
    raise SystemExit(1 if bad else 0)
print("fakelb: starting as uid", os.getuid(), flush=True)
if "die.example" in config["hosts"]:
    print("fakelb: [emerg] cannot go on", flush=True)
    raise SystemExit(7)
if "slow.example" in config["hosts"]:
    time.sleep(600)
if "worker.example" in config["hosts"]:
    if os.fork() == 0:
        time.sleep(600)
def record(listener, head):
    method, path, _ = head.split("\\r\\n")[0].split(" ")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    known = dict(time=now, listener=str(listener["port"]), method=method, host="a.example", path=path)
    return known | dict(route=path.strip("/") or "ok", pool="", endpoint="", status=503 if "bad" in path else 200,
                        duration_ms=1.5, upstream_ms=None, tries=0, bytes=2, request_id="x")
def serve(listener):
    server = socket.create_server((listener["address"], listener["port"]))
    while True:
        peer, _ = server.accept()
        head = peer.recv(65536)
        if head:
            with open(config["log"] or "/dev/stdout", "a") as log:
                log.write("ACCESS " + json.dumps(record(listener, head.decode("latin-1"))) + "\\n")
            body = json.dumps(config["admin"]).encode()
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n" + body)
        peer.close()
for listener in config["listeners"]:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
time.sleep(600)
"""


def judge(code: int, output: str, answers: object) -> tuple[str, ...]:
    return () if code == 0 else tuple(output.splitlines())


@dataclass(frozen=True)
class FakeEngine:
    program: Path
    name: str = "fake"
    title: str = "Fake"
    versions: tuple[str, ...] = ("1.0",)
    access_log: str = ""
    insertion_points: tuple[tuple[str, str], ...] = ()
    images = Images({}, "/usr/local/sbin/fakelb")

    @property
    def binaries(self) -> tuple[BinaryHint, ...]:
        return (BinaryHint(str(self.program)),)

    def verdict(self, feature, version):
        return NATIVE

    def objections(self, plan, version):
        return ()

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        listeners = [{"address": x.address, "port": x.port} for x in plan.listeners]
        hosts = [table.host.name for x in plan.listeners for table in x.hosts if table.host]
        config = {"listeners": listeners, "hosts": hosts, "admin": plan.admin_port, "log": self.access_log}
        return (RenderedFile("fake.json", json.dumps(config)),)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return ProcessSpec((str(binary.path),), access_log=self.access_log, fixed=("fake.json",))

    def access_record(self, line):
        return json.loads(line.removeprefix("ACCESS ")) if line.startswith("ACCESS ") else None

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return CheckSpec((str(binary.path), "-t"), judge)


def write_program(folder: Path) -> Path:
    path = folder / "fakelb"
    path.write_text(SERVER)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH | stat.S_IROTH)
    return path

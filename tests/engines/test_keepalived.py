"""keepalived: its own checker accepts what lbgen renders, and a kernel without IPVS is said, not passed over."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import lbgen
from lbgen.engines.api import Binary, EndpointRules, Level
from lbgen.engines.keepalived import ENGINE
from lbgen.engines.keepalived.build import can_hold
from lbgen.runtime.common.selection import missing_in_kernel
from lbgen.runtime.local.check import check
from tests.support.command import run_lbgen

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(
        shutil.which("keepalived", path="/usr/sbin:/sbin") is None, reason="keepalived is not installed"
    ),
]
ROOT = Path(__file__).parents[2]
GOLDEN = sorted(path.parent for path in (ROOT / "tests/golden").rglob("keepalived.conf"))
POSTGRES = str(ROOT / "examples/postgres/topology.yaml")
no_ipvs = pytest.mark.skipif(not missing_in_kernel(ENGINE), reason="this kernel has IPVS")


def topology(**changes: object) -> dict[str, object]:
    pool = {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80", "weight": 3}], **changes}
    return {
        "version": 1,
        "name": "l4",
        "listeners": {
            "web": {"port": 80, "mode": "l4", "address": "10.1.1.1"},
            "any": {"port": 81, "mode": "l4"},
            "dns": {"ports": "5300-5302", "mode": "l4", "protocol": "udp", "address": "10.1.1.1"},
        },
        "pools": {"app": pool},
        "routes": [
            {"name": "a", "listeners": ["web", "any"], "forward": "app"},
            {"name": "d", "listeners": ["dns"], "forward": "app"},
        ],
    }


def problems(data: dict[str, object]) -> tuple[lbgen.Diagnostic, ...]:
    return check(lbgen.plan(lbgen.load(data)), ENGINE, accept=("all",))


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: path.parent.name)
def test_its_checker_accepts_every_golden_file(folder: Path) -> None:
    asked = "ip link add eth0 type veth peer name eth1 && keepalived --config-test --use-file keepalived.conf"
    command = ("unshare", "--net", "sh", "-c", asked)  # with the interface of VRRP
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    if (folder / "marks.nft").exists():  # not with direct forwarding
        done = subprocess.run(("unshare", "--net", "nft", "-c", "-f", "marks.nft"), cwd=folder, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_an_endpoint_gets_the_listeners_address_and_tells_nobody() -> None:
    """The script for a host of endpoints does what it says, in a network of its own."""
    folder = ROOT / "tests/golden/l4-ipvs-direct/keepalived/direct"
    for script, address in (("10.77.2.11.sh", "10.77.2.100/32"), ("fd00::11.sh", "fd00::100/128")):
        asked = f"sh {script} && ip -o address show dev lo && cat /proc/sys/net/ipv4/conf/all/arp_*"
        done = subprocess.run(("unshare", "--net", "sh", "-c", asked), cwd=folder, capture_output=True, text=True)
        assert f" {address} " in done.stdout, done.stderr
        assert ("net.ipv4.conf.all.arp_ignore = 1" in done.stdout) == ("." in address)


ASK = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('10.77.2.100', 9))"
TELL = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.bind(('10.77.2.100', 0))
    one.sendto(b'', ('10.77.2.1', 9))
"""


@pytest.mark.parametrize("read_only", [False, True], ids=["a machine", "a container"])
def test_only_the_balancer_answers_for_the_listeners_address(read_only: bool) -> None:
    """On a machine by sysctls; where /proc/sys is read-only, as in a container, by rules. Without the script both
    would be seen: the neighbour asks for the address, and the endpoint asks from it."""
    folder = ROOT / "tests/golden/l4-ipvs-direct/keepalived/direct"
    script, table = "sh 10.77.2.11.sh", "arp lb_l4-ipvs-direct_ipvs"
    only = "mount -o bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && " if read_only else ""
    for done, seen in (("ip address add 10.77.2.100/32 dev lo", True), (script, False)):
        with ExitStack() as ends:
            hosts = [namespace(ends) for _ in range(2)]
            run_in(hosts[0], f"ip link add eth0 type veth peer name eth0 netns {hosts[1]}")
            for host, own in zip(hosts, ("10.77.2.11", "10.77.2.1"), strict=True):
                run_in(host, f"ip address add {own}/24 dev eth0 && ip link set eth0 up && ip link set lo up")
            asked = ("nsenter", "-n", "-t", str(hosts[0]), "unshare", "--mount", "sh", "-c", f"{only}{done}")
            subprocess.run(asked, cwd=folder, check=True, capture_output=True)
            for host, text in ((hosts[0], TELL), (hosts[1], ASK)):
                asked = ("nsenter", "-n", "-t", str(host), sys.executable, "-c", text)
                subprocess.run(asked, check=True)
                time.sleep(0.3)
            neighbours = run_in(hosts[1], "ip neighbour").splitlines()
            assert any(" lladdr " in x for x in neighbours if x.startswith("10.77.2.11 ")) is not seen
            assert any(" lladdr " in x for x in neighbours if x.startswith("10.77.2.100 ")) is seen
            if not seen:
                tables = run_in(hosts[0], "nft list tables")
                assert (f"table {table}" in tables) is read_only
                for command in next(x for x in direct_rules() if x.host == "10.77.2.11").teardown:
                    subprocess.run(("nsenter", "-n", "-t", str(hosts[0]), *command), check=True)
                assert table not in run_in(hosts[0], "nft list tables")


def direct_rules() -> tuple[EndpointRules, ...]:
    plan = lbgen.plan(lbgen.load(ROOT / "tests/golden/topologies/l4-ipvs-direct.yaml"))
    return ENGINE.process(plan, Binary(Path("keepalived"), "2.2.7"), Path("/")).endpoint_rules


def namespace(ends: ExitStack) -> int:
    """A host of the test, by the id of a process in its network."""
    host = subprocess.Popen(("unshare", "--net", "sh", "-c", "echo; exec sleep 60"), stdout=subprocess.PIPE)
    ends.callback(host.wait)
    ends.callback(host.kill)
    assert host.stdout is not None
    host.stdout.readline()
    return host.pid


@pytest.mark.parametrize("balance", ["round_robin", "least_connections", "source_hash"])
@pytest.mark.parametrize("path", [None, "/healthz?a=b&c=%20"])
def test_its_checker_accepts_every_scheduler_and_check(balance: str, path: str | None) -> None:
    active = {"interval": "250ms", "timeout": "150ms", "port": 8008} | ({"path": path} if path else {})
    assert problems(topology(balance=balance, health={"active": active}, connections={"max_per_endpoint": 9})) == ()


def test_a_path_is_held_or_refused_by_name() -> None:
    """A character of its parser (comments, quotes, parameters, conditions, sequences) never reaches the file."""
    refused = set()
    for char in map(chr, range(33, 127)):
        try:
            plan = lbgen.plan(lbgen.load(topology(health={"active": {"path": f"/a{char}b", "port": 80}})))
        except lbgen.LbgenError:
            continue  # no path of a URL
        if can_hold(f"/a{char}b"):
            assert f'path "/a{char}b"\n' in lbgen.render(plan, engine="keepalived", accept=("all",))["keepalived.conf"]
            continue
        refused.add(char)
        with pytest.raises(lbgen.LbgenError) as stop:
            lbgen.render(plan, engine="keepalived", accept=("all",))
        assert [each.field for each in stop.value.diagnostics] == ["pools.app.health.active.path"]
    assert refused >= set("!$@~")


def test_what_one_endpoint_or_host_can_have_once_is_said() -> None:
    data = topology(
        endpoints=[{"address": "10.0.0.1:80"}, *({"address": f"10.0.0.{n}:80", "backup": True} for n in (2, 3))],
        health={"active": {"path": "/", "port": 80}},
    )
    data["routes"][0]["timeouts"] = {"idle": "7s"}  # type: ignore[index]
    data["listeners"]["more"] = {"port": 82, "mode": "l4"}  # type: ignore[index]
    data["routes"].append({"name": "b", "listeners": ["more"], "forward": "app"})  # type: ignore[attr-defined]
    said = {x.field: x.verdict for x in ENGINE.objections(lbgen.plan(lbgen.load(data)), "2.2")}
    assert said["pools.app.endpoints[1].backup"].level is Level.APPROXIMATE
    assert said["pools.app.endpoints[2].backup"].note == "keepalived has one sorry server"
    assert said["routes[2].timeouts.idle"].note == "IPVS has one idle time for all TCP services of a host"


def run_in(pid: int, command: str) -> str:
    words = ("nsenter", "--target", str(pid), "--net", "sh", "-c", command)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def has_address(pid: int) -> bool:
    return " 10.77.2.100/32 " in run_in(pid, "ip -4 -o address show dev eth0")


def test_a_second_balancer_takes_the_floating_address_over(tmp_path: Path) -> None:
    """VRRP of the rendered file on two hosts, here namespaces; IPVS is left out (`--vrrp`)."""
    conf = ROOT / "tests/golden/l4-ipvs-direct/keepalived/keepalived.conf"
    with ExitStack() as ends:
        hosts = [namespace(ends) for _ in range(2)]
        run_in(hosts[0], f"ip link add eth0 type veth peer name eth0 netns {hosts[1]}")
        daemons = []
        for number, pid in enumerate(hosts, 1):
            run_in(pid, f"ip address add 10.77.2.{number}/24 dev eth0 && ip link set eth0 up && ip link set lo up")
        for number, pid in enumerate(hosts, 1):
            files = " ".join(f"--{kind} {tmp_path}/{kind}{number}" for kind in ("pid", "vrrp_pid"))
            run = (
                f"exec keepalived --vrrp --dont-fork --log-console --use-file {conf} {files} > {tmp_path}/{number} 2>&1"
            )
            words = ("nsenter", "--target", str(pid), "--net", "sh", "-c", run)
            daemons.append(subprocess.Popen(words))
            ends.callback(daemons[-1].wait)
            ends.callback(daemons[-1].terminate)
        wait_until(lambda: sum(map(has_address, hosts)) == 1, 12)
        first = [has_address(pid) for pid in hosts].index(True)
        daemons[first].terminate()
        wait_until(lambda: [has_address(pid) for pid in hosts].index(True) != first, 12)


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        with suppress(ValueError):  # nobody has it for a moment
            if holds():
                return
        assert time.monotonic() < end
        time.sleep(0.2)


@no_ipvs
@pytest.mark.parametrize("verb", [("up", "--runtime", "local"), ("verify",)], ids=lambda verb: verb[0])
def test_a_kernel_without_ipvs_is_said_with_the_remedy(verb: tuple[str, ...]) -> None:
    done = run_lbgen(verb[0], str(POSTGRES), "-e", "keepalived", *verb[1:])
    assert done.returncode == 3, done.stderr
    assert "LB432" in done.stderr
    assert "modprobe ip_vs" in done.stderr


@no_ipvs
def test_its_cases_are_counted_as_skipped(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "lbgen.conformance", "-k", "7.balance.weights", "-e", "keepalived", "--json")
    subprocess.run((*command, str(tmp_path / "r.json")), capture_output=True)
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert {each["state"] for each in results} == {"skipped"}
    assert all("has none (there is no /proc/net/ip_vs)" in each["detail"] for each in results)

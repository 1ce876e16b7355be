"""An engine that serves -> another one beside it in the same network, to which new connections are turned.

Both listen on addresses of their own (`network.side`); rules in their network decide whom the published ports lead to.
Open connections stay with the engine that has them until it has drained.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lbgen.runtime.common.signals import deferred
from lbgen.runtime.docker import container, network, own, sockets
from lbgen.runtime.docker.client import told
from lbgen.runtime.docker.container import File, Wanted
from lbgen.runtime.docker.converge import Found, outlived
from lbgen.runtime.docker.labels import RECORD_FILE, Record, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from docker import DockerClient

    from lbgen.runtime.docker.wanted import Part

TABLE = "lbgen_turn"
_FILE = "turn.nft"
_STAGED = ".leave"  # half a file must not be seen
_ASK_FROM = 61_001  # ports inside, by which we alone ask who shall be turned to
_LOOK_SECONDS = 0.1
_ACCEPTED_SECONDS = 0.3  # by then an engine has accepted what arrived before the turn
_KILL_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """Where clients come in: `holder` is who has the published ports, `served` whom they lead to now."""

    holder: Found
    served: Found


def entry(part: Part, there: Sequence[Found]) -> Entry | None:
    """The entry that `part` would take over; None where nothing serves, or the ports have to be others."""
    ports, record = part.ports
    holder = next((x for x in there if x.name == ports.name and x.running and x.record.hash == record.hash), None)
    if holder is None:
        return None
    for each in there:
        alive = each.record.role is Role.ENGINE and each.running and each.record.side == holder.record.side
        if alive and each.record.offset == part.chosen.offset and not outlived(each, holder):
            return Entry(holder, each)
    return None


def rules(
    address: str, ports: Sequence[tuple[int, str]], side: str, asked: str = "", others: Sequence[str] = ()
) -> str:
    """Rules that lead new connections for `ports` of `address`, and of `others` in networks that were joined, to the
    same ports of `side`. Ports from 61001 on lead to those of `asked`, one after the other."""
    tcp, udp = ([port for port, protocol in ports if protocol == which] for which in ("tcp", "udp"))
    turned, raw, replies = [], [], []
    if side != address:
        turned = [f"ip daddr {address} tcp dport {port} dnat to {side}" for port in tcp]
        raw = [f"ip daddr {address} udp dport {port} notrack ip daddr set {side}" for port in udp]
        replies = [f"ip saddr {side} udp sport {port} notrack ip saddr set {address}" for port in udp]
    turned += [f"ip daddr {x} {protocol} dport {port} dnat to {side}" for x in others for port, protocol in ports]
    if asked:
        numbered = enumerate(tcp, _ASK_FROM)
        turned += [f"ip daddr {address} tcp dport {number} dnat to {asked}:{port}" for number, port in numbered]
    chains = {
        "type nat hook prerouting priority dstnat - 10": [
            # What is older than these rules stays where it is.
            f"ip daddr {address} tcp flags & (fin | syn | rst | ack) != syn redirect",
            *turned,
        ],
        "type filter hook prerouting priority raw": raw,
        "type filter hook output priority raw": replies,
    }
    lines = [f"add table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    for number, (hook, body) in enumerate(chains.items()):
        if body:
            lines += [f"chain lb_{number} {{", f"{hook}; policy accept", *body, "}"]
    return "\n".join((*lines, "}", ""))


@dataclass(slots=True)
class Turn:
    """The exchange of what serves at an entry. `tool` is a container that may set rules; nothing else is in it."""

    entry: Entry
    part: Part
    address: str  # where published ports lead
    tool: Found
    turned: bool = False

    @property
    def _ports(self) -> list[tuple[int, str]]:
        return [(x.port, str(x.protocol)) for x in self.part.plan.listeners]

    @property
    def _new(self) -> str:
        return network.beside(self.address, self.part.chosen.side)

    @property
    def _old(self) -> str:
        return _whereto(self.address, self.entry.served.record)

    def _set(self, side: str, asked: str = "", *, kernel: bool) -> None:
        """`kernel`: `side` is that of rules that are at every address."""
        others = () if kernel else _others(self.entry.holder)
        _load(self.tool, rules(self.address, self._ports, side, asked, others))

    def prepare(self) -> None:
        """Let us ask the new engine, on ports that no client knows. EngineError LB403 when rules cannot be set."""
        self._set(self._old, self._new, kernel=_is_kernel(self.entry.served.record))

    def where(self) -> dict[str, tuple[str, int]]:
        """Where each listener of the new engine is reached from this host before clients reach it."""
        if self.part.spec.kernel:  # its rules cannot be tried without being in force
            return {x.listener: (x.host, x.port) for x in self.part.record.addresses}
        tcp = [x for x in self.part.plan.listeners if str(x.protocol) == "tcp"]
        return {x.name: (self.address, _ASK_FROM + number) for number, x in enumerate(tcp)}

    def wait_listening(self, seconds: float, stays: Callable[[], None], lack: Callable[[], str]) -> None:
        """EngineError LB403 when the new engine does not listen on every port in time; `stays` raises when it ended,
        `lack` says what it has too little of."""
        if self.part.spec.kernel:
            self._set(self.address, kernel=True)
            return
        title = self.part.record.title
        sockets.wait_listening(
            self.entry.holder, self._new, self._ports, title=title, seconds=seconds, stays=stays, lack=lack
        )

    def turn(self) -> None:
        """Lead new connections to the new engine. EngineError LB403, LB421."""
        kernel = self.part.spec.kernel
        self._set(self.address if kernel else self._new, kernel=kernel)
        self.turned = True
        record = replace(self.entry.holder.record, side=self.part.chosen.side)
        container.put(self.entry.holder.made, {RECORD_FILE: File(record.text())}, root=False)

    def back(self, new: Found | None) -> None:
        """Lead new connections to the engine that was there before."""
        self._set(self._old, kernel=_is_kernel(self.entry.served.record))
        if self.part.spec.kernel and new is not None and new.running:
            _tear_down(new)
        self.turned = False
        container.put(self.entry.holder.made, {RECORD_FILE: File(self.entry.holder.record.text())}, root=False)

    def drain(self, seconds: float) -> int:
        """Have the engine before end its connections as they fall silent, and stop it; returns how many were left after
        `seconds`, which are cut."""
        old = self.entry.served
        leaving = _leaving(old.record)
        if leaving.get("teardown"):
            _tear_down(old)  # the kernel goes on with what is open
            return 0
        time.sleep(_ACCEPTED_SECONDS)
        if leaving["leave"] is not None:
            name, text = leaving["leave"]
            container.put(old.made, {_STAGED: File(text.encode())}, root=False)
            container.execute(old.made, ("mv", "-f", _STAGED, name))
        else:
            container.signal(old.made, leaving["drain"])
        left, end = 0, time.monotonic() + seconds
        ports = {port for port, _ in self._ports}
        while True:
            left = sockets.connected(sockets.sockets(self.entry.holder), self._old, ports)
            if not left or time.monotonic() > end:
                break
            time.sleep(_LOOK_SECONDS)
        with told(f"stopping the container {old.name}"):
            old.made.stop(timeout=_KILL_SECONDS)
        return left


def lead(tool: Found, holder: Found, serves: Found) -> None:
    """Lead new connections to `serves`, whatever the rules are now. EngineError LB403, LB421."""
    joined = holder.made.attrs["NetworkSettings"]["Networks"][network.name(holder.record.stack)]
    address = str(joined["IPAddress"])
    ports = [(x.port, "udp" if x.scheme == "udp" else "tcp") for x in serves.record.addresses]
    others = () if _is_kernel(serves.record) else _others(holder)
    _load(tool, rules(address, ports, _whereto(address, serves.record), others=others))


def lead_all(client: DockerClient, stack: str, there: Sequence[Found], helper: Callable[[], str]) -> None:
    """Docker has published ports lead to the first network by name. Where that is one that was joined, rules lead on to
    the engine. EngineError LB403, LB421."""
    engines = [x for x in there if x.record.role is Role.ENGINE and x.running]
    for holder in there:
        if holder.record.role is not Role.PORTS or not holder.running or not _others(holder):
            continue
        serves = next((x for x in engines if x.record.side == holder.record.side and not outlived(x, holder)), None)
        if serves is not None:
            with tool(client, stack, holder, helper()) as made:
                lead(made, holder, serves)


def _others(holder: Found) -> tuple[str, ...]:
    """Its addresses in networks that come before the stack's own by name."""
    own = network.name(holder.record.stack)
    joined = holder.made.attrs["NetworkSettings"]["Networks"]
    return tuple(str(joined[each]["IPAddress"]) for each in sorted(joined) if each < own and joined[each]["IPAddress"])


def _is_kernel(record: Record) -> bool:
    return bool(_leaving(record).get("teardown"))


def _whereto(address: str, record: Record) -> str:
    """Where an engine waits for what comes to `address`."""
    return address if _is_kernel(record) else network.beside(address, record.side)


def _load(tool: Found, text: str) -> None:
    container.put(tool.made, {_FILE: File(text.encode())}, root=True)
    container.execute(tool.made, (own.NFT, "-f", _FILE))


def _tear_down(each: Found) -> None:
    for command in _leaving(each.record)["teardown"]:
        container.execute(each.made, command)


def _leaving(record: Record) -> dict[str, Any]:
    """How an engine leaves."""
    found: dict[str, Any] = json.loads(record.detail or "{}")
    return found


@contextmanager
def tool(client: DockerClient, stack: str, holder: Found, helper: str) -> Iterator[Found]:
    """A container that may set rules in the network of `holder`, for as long as the block lasts. EngineError LB421."""
    wanted = Wanted(
        name=f"{holder.name}-turn-{secrets.token_hex(2)}",
        image=helper,
        argv=own.WAIT,
        files={},
        joins=holder.name,
        capabilities=("NET_ADMIN",),
        stop="SIGKILL",
        once=True,
    )
    record = Record(stack, Role.CHECK, "")
    made = container.create(client, wanted, record, "")
    try:
        container.start(made, wanted)
        yield Found(made, record)
    finally:
        with deferred(), told(f"removing {wanted.name}"):
            container.remove(made)

"""Replace a serving engine by another one in the same network namespace, without refusing a connection.

Both engines listen on addresses of their own (`network.engine_address`); nft rules in that namespace decide which one
the published ports lead to. Open connections stay with the engine before until it has drained.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lbgen.runtime.common.processes import wait_until
from lbgen.runtime.docker import container, container_files, helper_image, network
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import File
from lbgen.runtime.docker.converge import StackContainer, is_orphaned
from lbgen.runtime.docker.labels import RECORD_FILE, Record, Role

if TYPE_CHECKING:
    from docker import DockerClient

    from lbgen.runtime.docker.desired import EngineUnit

TABLE = "lbgen_switch"
_FILE = "switch.nft"
_STAGED = ".leave"  # renamed when complete
_ASK_FROM = 61_001  # first port inside at which lbgen asks the new engine before the switch
_DIRECT_FROM = 63_001  # first port inside at which a balancer of direct forwarding reaches the engine
_LOOK_SECONDS = 0.1
_ACCEPTED_SECONDS = 0.3  # for an engine to accept connections that arrived before the switch
_KILL_SECONDS = 1


class Entrypoint(Struct, frozen=True):
    """Where clients connect: `holder` is the ports container, `serving` the engine that its ports lead to."""

    holder: StackContainer
    serving: StackContainer


def find_entrypoint(unit: EngineUnit, there: Sequence[StackContainer]) -> Entrypoint | None:
    """The entrypoint that `unit` would take over; None when no engine serves, or the published ports change."""
    ports, record = unit.holder
    holder = next((x for x in there if x.name == ports.name and x.running and x.record.hash == record.hash), None)
    if holder is None:
        return None
    for each in there:
        alive = each.record.role is Role.ENGINE and each.running and each.record.side == holder.record.side
        if alive and each.record.offset == unit.choice.offset and not is_orphaned(each, holder):
            return Entrypoint(holder, each)
    return None


class JoinedAddresses(Struct, frozen=True):
    """Addresses of a ports container outside of the stack's own network: `published`, where docker sends published
    ports, and those in the networks of `fronts` with direct forwarding, which need ports of their own, as replies to
    others must not come from their address."""

    published: tuple[str, ...] = ()
    fronts: tuple[str, ...] = ()


def direct_port(ports: Sequence[int], port: int) -> int:
    """The port at which a front with direct forwarding reaches the listener at `port`, one of `ports`, in order."""
    return _DIRECT_FROM + ports.index(port)


def nft_rules(
    address: str,
    ports: Sequence[tuple[int, str]],
    side: str,
    asked: str = "",
    joined: JoinedAddresses = JoinedAddresses(),  # noqa: B008 - frozen
) -> str:
    """nft rules that send new connections for `ports` of `address`, and of those in joined networks, to the same ports
    of `side`. Ports from 61001 on lead to those of `asked`, in order."""
    tcp, udp = ([port for port, protocol in ports if protocol == which] for which in ("tcp", "udp"))
    forwarded, raw, replies = [], [], []
    if side != address:
        forwarded = [f"ip daddr {address} tcp dport {port} dnat to {side}" for port in tcp]
        raw = [f"ip daddr {address} udp dport {port} notrack ip daddr set {side}" for port in udp]
        replies = [f"ip saddr {side} udp sport {port} notrack ip saddr set {address}" for port in udp]
    forwarded += [f"ip daddr {x} {kind} dport {port} dnat to {side}" for x in joined.published for port, kind in ports]
    for number, (port, kind) in enumerate(ports, _DIRECT_FROM):
        forwarded += [f"ip daddr {x} {kind} dport {number} dnat to {side}:{port}" for x in joined.fronts]
    if asked:
        numbered = enumerate(tcp, _ASK_FROM)
        forwarded += [f"ip daddr {address} tcp dport {number} dnat to {asked}:{port}" for number, port in numbered]
    chains = {
        "type nat hook prerouting priority dstnat - 10": [
            # Connections that are older than these rules stay with their engine.
            f"ip daddr {address} tcp flags & (fin | syn | rst | ack) != syn redirect",
            *forwarded,
        ],
        "type filter hook prerouting priority raw": raw,
        "type filter hook output priority raw": replies,
    }
    lines = [f"add table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    for number, (hook, body) in enumerate(chains.items()):
        if body:
            lines += [f"chain lb_{number} {{", f"{hook}; policy accept", *body, "}"]
    return "\n".join((*lines, "}", ""))


class TrafficSwitch(Struct):
    """The replacement of the engine at an entrypoint; `rules` is a container that may set nft rules there."""

    entrypoint: Entrypoint
    unit: EngineUnit
    address: str  # where published ports lead
    rules: StackContainer
    switched: bool = False

    @property
    def _ports(self) -> list[tuple[int, str]]:
        return [(x.port, str(x.protocol)) for x in self.unit.plan.listeners]

    @property
    def _new(self) -> str:
        return network.address_on_side(self.address, self.unit.choice.side)

    @property
    def _old(self) -> str:
        return _listen_address(self.address, self.entrypoint.serving.record)

    def _set(self, side: str, asked: str = "", *, kernel: bool) -> None:
        """`kernel`: `side` is the address of a kernel engine, whose rules apply to every address."""
        joined = JoinedAddresses() if kernel else _joined_addresses(self.entrypoint.holder)
        _load(self.rules, nft_rules(self.address, self._ports, side, asked, joined))

    def prepare(self) -> None:
        """Make the new engine reachable on ports that no client uses. EngineError LB403 when rules cannot be set."""
        self._set(self._old, self._new, kernel=is_kernel(self.entrypoint.serving.record))

    def listener_addresses(self) -> dict[str, tuple[str, int]]:
        """(address, port) by listener at which this host reaches the new engine before the switch."""
        if self.unit.spec.kernel:  # its rules apply at once
            return {x.listener: (x.host, x.port) for x in self.unit.record.addresses}
        tcp = [x for x in self.unit.plan.listeners if str(x.protocol) == "tcp"]
        return {x.name: (self.address, _ASK_FROM + number) for number, x in enumerate(tcp)}

    def wait_listening(
        self, seconds: float, ensure_alive: Callable[[], None], resource_hint: Callable[[], str]
    ) -> None:
        """EngineError LB403 when the new engine does not listen on every port in time; `ensure_alive` raises when it
        has ended, `resource_hint` says what it lacks."""
        if self.unit.spec.kernel:
            self._set(self.address, kernel=True)
            return
        title = self.unit.record.title
        network.wait_listening(
            self.entrypoint.holder.handle,
            self._new,
            self._ports,
            title=title,
            seconds=seconds,
            ensure_alive=ensure_alive,
            resource_hint=resource_hint,
        )

    def switch(self) -> None:
        """Route new connections to the new engine. EngineError LB403, LB421."""
        kernel = self.unit.spec.kernel
        self._set(self.address if kernel else self._new, kernel=kernel)
        self.switched = True
        record = replace(self.entrypoint.holder.record, side=self.unit.choice.side)
        container_files.put(self.entrypoint.holder.handle, {RECORD_FILE: File(record.text())}, root=False)

    def rollback(self, new: StackContainer | None) -> None:
        """Route new connections to the previous engine again."""
        old = self.entrypoint.serving
        self._set(self._old, kernel=is_kernel(old.record))
        if self.unit.spec.kernel and new is not None and new.running:
            had = _drain_settings(old.record)
            if had.get("teardown"):  # the new rules have replaced its own
                for command in had.get("setup", ()):
                    container.execute(old.handle, command)
            _tear_down(new, had.get("teardown", ()))
        self.switched = False
        container_files.put(
            self.entrypoint.holder.handle, {RECORD_FILE: File(self.entrypoint.holder.record.text())}, root=False
        )

    def drain(self, seconds: float) -> int:
        """Drain and stop the previous engine; returns how many connections were open after `seconds` and were cut."""
        old = self.entrypoint.serving
        leaving = _drain_settings(old.record)
        if leaving.get("teardown"):
            _tear_down(old, self.unit.spec.teardown)  # the kernel keeps forwarding open connections
            return 0
        time.sleep(_ACCEPTED_SECONDS)
        if leaving["leave"] is not None:
            name, text = leaving["leave"]
            container_files.put(old.handle, {_STAGED: File(text.encode())}, root=False)
            container.execute(old.handle, ("mv", "-f", _STAGED, name))
        else:
            container.signal(old.handle, leaving["drain"])
        ports = {port for port, _ in self._ports}

        def left() -> int:
            return network.connected(network.sockets(self.entrypoint.holder.handle), self._old, ports)

        cut = 0 if wait_until(lambda: not left(), seconds, _LOOK_SECONDS) else left()
        with docker_errors(f"stopping the container {old.name}"):
            old.handle.stop(timeout=_KILL_SECONDS)
        return cut


def route_to(rules: StackContainer, holder: StackContainer, serves: StackContainer) -> None:
    """Route new connections to `serves`, whatever the present rules are. EngineError LB403, LB421."""
    own = holder.handle.attrs["NetworkSettings"]["Networks"][network.name(holder.record.stack)]
    address = str(own["IPAddress"])
    ports = [(x.port, "udp" if x.scheme == "udp" else "tcp") for x in serves.record.addresses]
    joined = JoinedAddresses() if is_kernel(serves.record) else _joined_addresses(holder)
    _load(rules, nft_rules(address, ports, _listen_address(address, serves.record), joined=joined))


def route_joined_networks(
    client: DockerClient, stack: str, there: Sequence[StackContainer], helper: Callable[[], str]
) -> None:
    """Docker sends published ports to a container's first network by name. Where that is a joined network, and for a
    front with direct forwarding, set rules that forward to the engine. EngineError LB403, LB421."""
    engines = [x for x in there if x.record.role is Role.ENGINE and x.running]
    for holder in there:
        if holder.record.role is not Role.PORTS or not holder.running:
            continue
        if _joined_addresses(holder) == JoinedAddresses():
            continue
        serves = next((x for x in engines if x.record.side == holder.record.side and not is_orphaned(x, holder)), None)
        if serves is not None:
            with rules_container(client, stack, holder, helper()) as handle:
                route_to(handle, holder, serves)


def _joined_addresses(holder: StackContainer) -> JoinedAddresses:
    """Those in networks whose names sort before the stack's own, and those that are fixed."""
    own = network.name(holder.record.stack)
    every = holder.handle.attrs["NetworkSettings"]["Networks"]
    joined = [(each, every[each]) for each in sorted(every) if each != own and every[each]["IPAddress"]]
    return JoinedAddresses(
        tuple(str(there["IPAddress"]) for each, there in joined if each < own),
        tuple(str(there["IPAddress"]) for _, there in joined if network.fixed_address(there)),
    )


def is_kernel(record: Record) -> bool:
    return bool(_drain_settings(record).get("teardown"))


def _listen_address(address: str, record: Record) -> str:
    """The address at which an engine serves connections to `address`."""
    return address if is_kernel(record) else network.address_on_side(address, record.side)


def _load(rules: StackContainer, text: str) -> None:
    container_files.put(rules.handle, {_FILE: File(text.encode())}, root=True)
    container.execute(rules.handle, (helper_image.NFT, "-f", _FILE))


def _tear_down(each: StackContainer, others: Sequence[Sequence[str]]) -> None:
    """Remove the rules of a kernel engine, but for tables that are those of the `others` now, which their commands
    remove."""
    kept = set(map(tuple, others))
    for command in _drain_settings(each.record)["teardown"]:
        if tuple(command) not in kept:
            container.execute(each.handle, command)


def _drain_settings(record: Record) -> dict[str, Any]:
    """How the engine of a record drains: `drain`, `leave` and `teardown`; `setup` loads what `teardown` removes."""
    found: dict[str, Any] = json.loads(record.detail or "{}")
    return found


@contextmanager
def rules_container(client: DockerClient, stack: str, holder: StackContainer, helper: str) -> Iterator[StackContainer]:
    """A container that may set rules in the network namespace of `holder`, while the block lasts. EngineError LB421."""
    spec = ContainerSpec(
        name=f"{holder.name}-switch-{secrets.token_hex(2)}",
        image=helper,
        argv=helper_image.WAIT_ARGV,
        files={},
        joins=holder.name,
        capabilities=("NET_ADMIN",),
        stop="SIGKILL",
        once=True,
    )
    record = Record(stack, Role.CHECK, "")
    with container.temporary(client, spec, record) as handle:
        yield StackContainer(handle, record)

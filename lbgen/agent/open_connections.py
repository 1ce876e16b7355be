"""Open client connections of listeners, from the kernel's table of sockets: the same count for every engine."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.engines.metrics_spec import CountedListener

_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in the table of IPv6
_FOLDER = Path("/proc/self/net")


def count_connections(listeners: Sequence[CountedListener], folder: Path = _FOLDER) -> dict[str, int]:
    """Established connections by listener, in the network namespace of this process. UDP listeners have none."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for each in listeners:
        if each.port:
            wanted.setdefault(f"{each.port:04X}", []).append((each.name, _hex(each.address)))
    found = {each.name: 0 for each in listeners if each.port}
    for table in ("tcp", "tcp6"):
        try:
            lines = (folder / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # a kernel without IPv6
            continue
        for line in lines:
            _, local, _, state, _ = line.split(maxsplit=4)
            address, _, port = local.partition(":")
            if state == _ESTABLISHED and port in wanted:
                address = address.removeprefix(_MAPPED) if len(address) > 8 else address
                # An exact address before a listener on all of them.
                rows = sorted(wanted[port], key=lambda x: x[1] == "")
                name = next((name for name, own in rows if own in ("", address)), None)
                if name is not None:
                    found[name] += 1
    return found


def _hex(address: str) -> str:
    """An address as the table has it: words of the host's byte order; "" for any address."""
    parsed = ip_address(address)
    if parsed.is_unspecified:
        return ""
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    words = struct.unpack(f"={len(parsed.packed) // 4}I", socket.inet_pton(family, address))
    return "".join(f"{word:08X}" for word in words)

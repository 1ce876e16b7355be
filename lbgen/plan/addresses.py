"""Addresses of clients, where an IPv4-mapped IPv6 address is the IPv4 address, and of listeners."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


@lru_cache(maxsize=4096)
def client_ip(text: str) -> IPv4Address | IPv6Address:
    """The address in `text`; `::ffff:192.0.2.7` is 192.0.2.7 (RFC 4291 2.5.5.2). Raises ValueError."""
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def is_within(client: str, networks: Iterable[str]) -> bool:
    """Whether the client's address belongs to one of the networks, which are in CIDR form."""
    address = client_ip(client)
    return any(address in ip_network(network) for network in networks)


def is_every_address(address: str) -> bool:
    """Whether a listener is at every address of the host."""
    return address in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound

"""Parses hosts, addresses and networks into canonical forms."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from lbgen.spec.value_errors import invalid, require_text, shorten

MOST_PORTS = 1_000  # of a range
_MAPPED_BITS = 96  # before the IPv4 address in an IPv4-mapped IPv6 one
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
SERVICE_PATTERN = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # name and namespace
_SERVICE = re.compile(SERVICE_PATTERN)
_CLUSTER = ".svc.cluster.local"
# Sharp s, final sigma and the joiners: the standard library's IDNA 2003 and today's browsers disagree on them.
_DEVIATIONS = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")


class Address(NamedTuple):
    """Where an endpoint is. `host`: IP literal (IPv6 without brackets) or a lower-case name."""

    host: str
    port: int
    is_ip: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_host(value: object) -> str:
    """A host a request can name: `shop.example`, `*.shop.example`, `192.0.2.1`, `[2001:db8::1]`; LB116 otherwise.

    Lower-case, IDN as punycode, no trailing dot, IPv6 in brackets.
    """
    written = require_text("a host name", value)
    if written in ("*", "*."):
        raise invalid("LB116", '"*" covers every host', "leave hosts out")
    wildcard = written.startswith("*.")
    rest = written[2:] if wildcard else written
    if written.startswith("~") or "(" in written or "^" in written:
        hint = "name the hosts, or write *.shop.example, which covers any depth"
        raise invalid("LB116", f'"{shorten(written)}": hosts are no regular expressions', hint)
    if "://" in written:
        raise invalid("LB116", f'"{shorten(written)}" is a URL', "write the host alone, such as shop.example")
    if "*" in rest:
        last = rest.rpartition("*.")[2]
        hint = f'write "*.{last}", which covers any depth' if last and "*" not in last else "write *.shop.example"
        raise invalid("LB116", f'"{shorten(written)}": a wildcard is the whole first label', hint)
    if written.startswith(".") and len(written) > 1:
        hint = f'write "*{written}" for the names below it, and "{written[1:]}" beside it for the name itself'
        raise invalid("LB116", f'"{shorten(written)}" is not a host name', shorten(hint, 200))
    if literal := _ip(rest[1:-1] if rest[:1] == "[" and rest[-1:] == "]" else rest):
        if wildcard:
            raise invalid("LB116", f'"{shorten(written)}": an IP address has no subdomains')
        return f"[{literal.compressed}]" if literal.version == 6 else literal.compressed
    name = _name(rest, "LB116")
    return f"*.{name}" if wildcard else name


def parse_plain_host(value: object) -> str:
    """Like `parse_host`, without wildcards."""
    host = parse_host(value)
    if host.startswith("*."):
        raise invalid("LB116", f'"{host}": a wildcard cannot stand here', "write one host")
    return host


def parse_host_port(value: object) -> str:
    """A host with or without a port, as a Host header may hold it."""
    written = require_text("a host", value)
    host, port = _split_port(written)
    if port is None:
        return parse_plain_host(written)
    return f"{parse_plain_host(host)}:{_port(port, written)}"


def parse_address(value: object) -> Address:
    """`10.0.2.10:8080`, `web-2:8080`, `[2001:db8::1]:8080`; LB115 otherwise."""
    written = require_text("an address (host:port)", value)
    if written.startswith("unix:") or "/" in written:
        raise invalid("LB115", f'"{shorten(written)}" is not host:port', "leave out schemes, paths and sockets")
    host, port = _split_port(written)
    if port is None:
        if _ip(written) and ":" in written:
            rest, _, last = written.rpartition(":")
            known = last.isdecimal() and _ip(rest)  # ::1:8080 is an address as well
            hint = f'write "[{rest}]:{last}", or "[{written}]:8080"' if known else f'write "[{written}]:8080"'
            raise invalid("LB115", f'"{written}" has no port', hint)
        raise invalid("LB115", f'"{shorten(written)}" has no port', f'write "{shorten(written)}:8080"')
    number = _port(port, written)
    if literal := _ip(host[1:-1] if host[:1] == "[" else host):
        if literal.version == 6 and host[:1] != "[":
            raise invalid("LB115", f'"{written}" can be read in two ways', f'write "[{host}]:{port}"')
        if literal.is_unspecified or literal.is_multicast:
            raise invalid("LB115", f"{literal} is not the address of an endpoint")
        return Address(literal.compressed, number, True)
    return Address(_name(host, "LB115"), number, False)


def parse_service(value: object) -> Address:
    """A Service of a Kubernetes cluster, `api.shop:8080` (NAME.NAMESPACE:PORT), by its whole name; LB115 otherwise."""
    written = require_text("a Service (name.namespace:port)", value)
    name, port = _split_port(written)
    if port is None:
        raise invalid("LB115", f'"{shorten(written)}" has no port', f'write "{shorten(written)}:8080"')
    if not _SERVICE.fullmatch(name):
        hint = 'write name.namespace:port, such as "api.default:8080"; a whole name is written as address:'
        raise invalid("LB115", f'"{shorten(written)}" is not a Service with its namespace', hint)
    return Address(f"{name}{_CLUSTER}", _port(port, written), False)


def write_service(address: Address) -> str:
    return f"{address.host.removesuffix(_CLUSTER)}:{address.port}"


def parse_ip(value: object) -> str:
    """An IP literal, without brackets; LB115 otherwise."""
    written = require_text("an IP address", value)
    if literal := _ip(written[1:-1] if written[:1] == "[" and written[-1:] == "]" else written):
        return literal.compressed
    hint = 'write an IP address: "0.0.0.0" for all of IPv4, "::" for IPv4 and IPv6, 127.0.0.1 for this host only'
    raise invalid("LB115", f'"{shorten(written)}" is not an IP address', hint)


class PortRange(NamedTuple):
    """Ports from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def ports(self) -> range:
        return range(self.first, self.last + 1)


def parse_port_range(value: object) -> PortRange:
    """`8000-8010`; LB115 otherwise."""
    written = require_text("a range of ports (8000-8010)", value)
    found = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", written)
    if not found:
        raise invalid("LB115", f'"{shorten(written)}" is not a range of ports', "write 8000-8010")
    first, last = int(found[1]), int(found[2])
    if not 1 <= first <= last <= 65_535:
        raise invalid("LB115", f"{written} is not within 1-65535, lower port first", "write 8000-8010")
    if last - first >= MOST_PORTS:
        raise invalid("LB115", f"{written} has {last - first + 1} ports", f"write at most {MOST_PORTS}")
    return PortRange(first, last)


def parse_resolver(value: object) -> str:
    """A DNS server: an IP address, with or without a port."""
    written = require_text("the IP address of a DNS server", value)
    if literal := _ip(written):
        return literal.compressed
    host, port = _split_port(written)
    literal = _ip(host[1:-1] if host[:1] == "[" else host)
    if port is None or literal is None:
        raise invalid("LB115", f'"{shorten(written)}" is not an IP address', "write 10.0.0.2 or 10.0.0.2:53")
    return str(Address(literal.compressed, _port(port, written), True))


def parse_cidr(value: object) -> str:
    """A network in CIDR form, or an IP address as a network of one; LB122 otherwise."""
    written = require_text("a network in CIDR form", value)
    try:
        return _plain_network(ip_network(written, strict=True)).compressed
    except ValueError:
        pass
    try:
        hint = f"write {ip_network(written, strict=False).compressed}"
        raise invalid("LB122", f"{written} has bits set right of its mask", hint)
    except ValueError as error:
        if getattr(error, "type", "") == "LB122":
            raise
    raise invalid("LB122", f'"{shorten(written)}" is not a network', "write an address and a mask, such as 10.0.0.0/8")


def _plain_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """The IPv4 network that a network of IPv4-mapped IPv6 addresses stands for; any other as it is."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _ip(written: str) -> IPv4Address | IPv6Address | None:
    if ":" not in written and not written[-1:].isdigit():
        return None
    if "%" in written:  # a zone means something on one host only
        return None
    try:
        return ip_address(written)
    except ValueError:
        return None


def _split_port(written: str) -> tuple[str, str | None]:
    if written.startswith("["):
        host, bracket, rest = written.partition("]")
        return host + bracket, rest[1:] if rest.startswith(":") else None
    host, colon, port = written.rpartition(":")
    if not colon or (":" in host and _ip(written)):
        return written, None
    return host, port


def _port(port: str, written: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", port):
        raise invalid("LB115", f'"{shorten(written)}": the port is not a number', "write host:port, such as web-2:8080")
    number = int(port)
    if number > 65535:
        raise invalid("LB104", f"port {number} is above 65535")
    if number == 0:
        raise invalid("LB104", "port 0 is below 1")
    return number


def _name(written: str, code: str) -> str:
    name = written.removesuffix(".")
    if not name:
        raise invalid(code, f'"{shorten(written)}" is not a host name')
    if ":" in name and code == "LB116":
        host = shorten(name.partition(":")[0])
        raise invalid(code, f'"{shorten(written)}" has a port', f'write "{host}": the port is the listener\'s')
    if not name.isascii():
        if _DEVIATIONS & set(name):
            raise invalid(
                code,
                f'"{shorten(written)}": browsers and resolvers read this name differently',
                "write its xn-- form",
            )
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            raise invalid(code, f'"{shorten(written)}" is not a valid IDNA name', "write its xn-- form") from None
    name = name.lower()
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        hint = "letters, digits and hyphens, dots between, at most 63 a label and 253 in all"
        raise invalid(code, f'"{shorten(written)}" is not a host name', hint)
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        raise invalid(
            code,
            f'"{shorten(written)}" is neither a host name nor an IP address',
            "a name's last label is not a number",
        )
    return name

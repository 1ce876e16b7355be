"""nginx: which server block, and so which certificate and which rules, a name leads to."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.nginx.tls import VirtualServer, virtual_servers
from lbgen.plan.model import HostPattern, HostTable, Listener, Mode, Protocol
from lbgen.plan.tls import Certificate, File, ListenerTls


def certificate(number: int, *names: str) -> Certificate:
    patterns = tuple(HostPattern(n.removeprefix("*."), n.startswith("*.")) for n in names)
    return Certificate(File(f"tls/{number}.crt"), File(f"tls/{number}.crt.key"), patterns, "certificates")


CERTIFICATES = (
    certificate(0, "shop.example", "*.wild.example"),
    certificate(1, "in.wild.example", "api.example"),
    certificate(2, "*.wild.example", "shop.example", "*.deep.wild.example"),
)
HOSTS = ("shop.example", "other.example", "x.wild.example", "*.deep.wild.example", "*.wild.example", "*.example")


def made() -> tuple[Listener, tuple[VirtualServer, ...]]:
    tables = tuple(HostTable(HostPattern(h.removeprefix("*."), h.startswith("*.")), ()) for h in HOSTS)
    listener = Listener(
        "web", "127.0.0.1", 443, Mode.L7, Protocol.TCP, "listeners.web", hosts=(*tables, HostTable(None, ()))
    )
    return listener, virtual_servers(listener, ListenerTls(certificates=CERTIFICATES))


def chosen(every: tuple[VirtualServer, ...], name: str) -> VirtualServer:
    """As nginx chooses: an exact name, the first regex that matches, else the default."""
    for face in every:
        if any(n.text == name for n in face.names if not hasattr(n, "kind")):
            return face
    for face in every:
        if any(re.search(n.text, name) for n in face.names if hasattr(n, "kind")):
            return face
    return next(face for face in every if face.default)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("shop.example", 0),
        ("api.example", 1),
        ("in.wild.example", 1),
        ("x.wild.example", 0),
        ("y.wild.example", 0),
        ("a.deep.wild.example", 2),
        ("a.b.wild.example", None),
        ("wild.example", None),
        ("other.example", None),
        ("nobody.test", None),
        ("", 0),
    ],
)
def test_names_lead_to_certificates_and_rules(name, number):
    listener, every = made()
    face = chosen(every, name)
    shown = None if face.certificate is None else CERTIFICATES.index(face.certificate)
    assert shown == number
    wanted = next(t for t in listener.hosts if t.host is None or t.host.covers(name))
    assert face.table is wanted


def test_one_block_is_the_default():
    _, every = made()
    assert [face.default for face in every].count(True) == 1

"""Server names and certificates of Envoy's listeners."""

from __future__ import annotations

import re

from lbgen.engines.envoy.tls import build_names_pattern, select_certificates
from lbgen.plan.model import HostPattern
from lbgen.plan.tls import Certificate, File, ListenerTls


def certificate(name: str, *names: str) -> Certificate:
    hosts = tuple(HostPattern(n.removeprefix("*."), n.startswith("*.")) for n in names)
    return Certificate(File(f"tls/{name}.crt"), File(f"tls/{name}.crt.key", secret=True), hosts, "f")


def test_server_names_cover_one_label() -> None:
    tls = ListenerTls(certificates=(certificate("a", "a.example"), certificate("b", "*.b.example")))
    pattern = build_names_pattern(tls)
    assert re.fullmatch(pattern, "a.example")
    assert re.fullmatch(pattern, "x.b.example")
    assert not re.fullmatch(pattern, "x.y.b.example")
    assert not re.fullmatch(pattern, "b.example")


def test_a_certificate_whose_names_are_taken_is_never_shown() -> None:
    first, second = certificate("a", "a.example", "b.example"), certificate("b", "b.example")
    third = certificate("c", "b.example", "c.example")
    assert select_certificates((first, second, third)) == [first, third]

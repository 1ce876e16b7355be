"""Values of sticky cookies: keyed, the same on every engine and runtime, and their secret's file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.plan.overlay import with_endpoints
from lbgen.plan.resolve import findings

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = ("10.0.0.1:80", "10.0.0.2:80")


def topology(folder: Path, *, key: str | None = None, name: str = "shop") -> lbgen.Topology:
    sticky = "{ cookie: LB }" if key is None else f"{{ cookie: LB, secret: {key} }}"
    endpoints = ", ".join(f'{{ address: "{address}" }}' for address in ADDRESSES)
    file = folder / "t.yaml"
    file.write_text(
        f"version: 1\nname: {name}\nlisteners: {{ web: {{ port: 8080 }} }}\n"
        f"pools: {{ app: {{ sticky: {sticky}, endpoints: [{endpoints}] }} }}\n"
        "routes: [{ name: all, forward: app }]\n",
        encoding="utf-8",
    )
    return lbgen.load(file)


def values(folder: Path, **options: str) -> list[str]:
    return [endpoint.cookie_value for endpoint in lbgen.plan(topology(folder, **options)).pool("app").endpoints]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.key").write_text("0123456789abcdef0123456789abcdef\n", encoding="ascii")
    (tmp_path / "two.key").write_text("another secret of at least 16 bytes", encoding="ascii")
    (tmp_path / "short.key").write_text("fifteen bytes !\n", encoding="ascii")
    return tmp_path


def test_an_address_alone_does_not_yield_the_value(folder: Path) -> None:
    plain = [hashlib.sha256(address.encode()).hexdigest()[:16] for address in ADDRESSES]
    assert not set(plain) & {*values(folder), *values(folder, key="one.key")}


def test_the_value_depends_on_the_secret_or_else_on_the_name(folder: Path) -> None:
    one = values(folder, key="one.key")
    assert one == values(folder, key="one.key", name="other")
    assert len({*one, *values(folder, key="two.key"), *values(folder), *values(folder, name="other")}) == 8


def test_engines_get_the_same_values_and_none_the_secret(folder: Path) -> None:
    loaded = topology(folder, key="one.key")
    for engine in ("envoy", "haproxy", "nginx", "traefik"):
        text = "".join(lbgen.render(loaded, engine=engine, accept=("all",)).values())
        own = engine == "traefik"  # its cookie has a value of its own
        assert own or all(value in text for value in values(folder, key="one.key")), engine
        assert "0123456789abcdef" not in text


def test_a_runtime_that_moves_endpoints_keeps_the_values(folder: Path) -> None:
    plan = lbgen.plan(topology(folder))
    moved = with_endpoints(plan, {"pools.app.endpoints[0]": ("127.0.0.1", 9000)})
    assert moved.pool("app").endpoints[0].cookie_value == plan.pool("app").endpoints[0].cookie_value


@pytest.mark.parametrize(
    ("key", "reason"),
    [("none.key", "no such file or directory"), ("short.key", "15 bytes"), (".", "is a directory")],
)
def test_a_secret_that_cannot_be_used_is_an_error_with_its_place(folder: Path, key: str, reason: str) -> None:
    with pytest.raises(lbgen.LbgenError) as caught:
        lbgen.plan(topology(folder, key=key))
    [found] = caught.value.diagnostics
    assert (found.code, found.field, found.span.line) == ("LB230", "pools.app.sticky.secret", 4)
    assert reason in found.message
    assert "openssl rand -hex 32" in found.hint


def test_check_calls_a_derived_key_guessable(folder: Path) -> None:
    assert "LB293" in [found.code for found in findings(topology(folder))]
    assert "LB293" not in [found.code for found in findings(topology(folder, key="one.key"))]

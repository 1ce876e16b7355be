"""Keys and words of other tools: each finding says what to write, and the table names nothing that lbgen has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.spec.dump import dump
from lbgen.spec.foreign_terms import CAUSES, ForeignKey, foreign_keys
from lbgen.spec.http import parse_retry_cause
from lbgen.spec.load import load_bytes
from lbgen.spec.model import TopologyModel
from lbgen.spec.pydantic_errors import models_at
from lbgen.spec.schema import models_of_topology
from lbgen.spec.source import read_text

ROUTE = "version: 1\nname: x\nlisteners: {{ web: {{ port: 80 }} }}\nroutes:\n  - {{ name: a, forward: a, {} }}\n"
POOL = "version: 1\nname: x\npools: {{ a: {{ endpoints: [{{ address: 'h:1' }}], {} }} }}\n"
LISTENER = "version: 1\nname: x\nlisteners: {{ web: {{ port: 80, {} }} }}\n"


def hint(text: str) -> str:
    with pytest.raises(LbgenError) as stop:
        load_bytes(text.encode(), "x.yaml", Path())
    return " | ".join(finding.hint for finding in stop.value.diagnostics)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROUTE.format("match: [{ host: a.example }]"), "write hosts: [shop.example] on the route"),
        (ROUTE.format("match: [{ path: /v1 }]"), "write path: { prefix: /v1 }"),
        (ROUTE.format("match: { path: { prefix: / } }"), "write it as a list: [{ ... }]"),
        (ROUTE.format("path: /v1"), "write match: [{ path: { prefix: /api } }]"),
        (ROUTE.format("listener: web"), "write listeners: [web]"),
        (ROUTE.format("listeners: web"), "write [web]"),
        (ROUTE.format("websocket: true"), "WebSockets need no key"),
        (ROUTE.format("proxy_pass: a"), "write forward: shop; the name of a pool"),
        (ROUTE.format("retries: { max: 1, on: [reset], attempts: 3 }"), "write max: 2"),
        (ROUTE.format("retries: { max: 1, on: [5xx] }"), "write the statuses: 500, 502, 503, 504"),
        (ROUTE.format("retries: { max: 1, on: [gateway-error] }"), "write 502, 503, 504"),
        (ROUTE.format("retries: { max: 1, on: [http_502] }"), "write 502"),
        (ROUTE.format("rate_limit: { rate: 10r/s, key: client_ip }"), "write 10/s"),
        (ROUTE.format("rate_limit: { rate: 10 per minute, key: client_ip }"), "write 10/m"),
        (ROUTE.format("rate_limit: { rate: 10/s, key: client }"), "write client_ip"),
        (ROUTE.format("hosts: [.example.org]"), 'write "*.example.org" for the names below it, and "example.org"'),
        (ROUTE.format('hosts: ["*.*.x"]'), 'write "*.x", which covers any depth'),
        (ROUTE.format('hosts: ["shop.example:80"]'), 'write "shop.example": the port is the listener\'s'),
        (ROUTE.format('hosts: ["~^foo"]'), "name the hosts, or write *.shop.example"),
        (ROUTE.format('hosts: ["http://foo"]'), "write the host alone"),
        (ROUTE.format("rewrite: /foo"), "write such as rewrite: { prefix: /v1 }"),
        (ROUTE.format("timeouts: 5s"), "write such as timeouts: { response: 10s }"),
        (LISTENER.format("mode: tcp"), "write mode: l4"),
        (LISTENER.format("type: tcp"), "write mode: l4; and protocol: udp for datagrams"),
        (LISTENER.format("tls: { cert: a.crt }"), "write certificates: [{ cert: FILE, key: FILE }]"),
        (POOL.format("balance: least_conn"), 'did you mean "least_connections"?'),
        (POOL.format("balance: ip_hash"), "write source_hash"),
        (POOL.format("health: { active: { unhealthy_threshold: 3 } }"), "write fall: 3"),
        (POOL.format("health: { active: { interval: 5 } }"), "write 5s or 5ms"),
        ("version: 1\nname: x\nupstreams: {}\n", "write pools:"),
        ("apiVersion: v1\nversion: 1\nname: x\n", "write version: 1; a topology is no Kubernetes object"),
        ("version: 1\nname: x\nproxyReadTimeout: 5s\n", "idle: 60s } on the route"),
        (ROUTE.format("backendRefs: [{ name: a }]"), "write forward: shop; the name of a pool"),
        (ROUTE.format("lb_policy: random"), "write balance: least_connections on the pool"),
        (ROUTE.format("handle_path: /api/*"), "write match: [{ path: { prefix: /api } }]"),
        (ROUTE.format("retries: { max: 1, on: [reset], per-try-timeout: 3s }"), "response: 5s } on the route"),
        (
            ROUTE.format("timeouts: { client_body: 3s }"),
            "write timeouts: { client_header: 10s, client_body: 30s } on the l",
        ),
        (ROUTE.format("basicAuth: {}"), "auth: { basic: { users: FILE } }"),
        (LISTENER.format("set_real_ip_from: 10.0.0.0/8"), "write trusted_proxies: [10.0.0.0/8]"),
        (LISTENER.format("real_ip_header: X"), "write client_ip: { header: CF-Connecting-IP }; beside trusted_proxies"),
        (POOL.format("outlierDetection: {}"), "write health: { passive: { failures: 5, eject_for: 10s } }"),
    ],
)
def test_what_other_tools_call_it_gets_the_words_to_write(text: str, says: str) -> None:
    assert says in hint(text)


# Every mapping that an example may be put into; files are not looked for when a topology is loaded.
FULL = """
version: 1
name: full
listeners:
  web:
    port: 80
    tls: { certificates: [{ cert: a.crt, key: a.key }], acme: { domains: [a.example] } }
    trusted_proxies: [10.0.0.0/8]
    client_ip: { header: X-Real-IP }
  tcp: { port: 81, mode: l4, tls: { mode: passthrough } }
error_pages: { 404: { body: gone } }
forwarded_headers: { real_ip: true }
pools:
  a:
    endpoints: [{ address: "10.0.0.1:80" }, { address: "10.0.0.2:80" }]
    health: { active: { path: / }, passive: { failures: 1, eject_for: 1s } }
    sticky: { cookie: A }
routes:
  - name: a
    forward: a
    match: [{ path: { prefix: / } }]
    timeouts: { response: 1s }
    retries: { max: 1, on: [reset] }
    rate_limit: { rate: 1/s, key: route }
    cors: { origins: ["https://a.example"], methods: [GET], headers: [x-a] }
  - { name: b, redirect: { path: / } }
  - { name: c, respond: { status: 200 } }
"""
WITH_FIELD = [row for row in foreign_keys() if row.field]


def put(data: Any, path: list[str], key: str, value: object) -> bool:
    """Put `value` into the first mapping at `path`; False when there is none."""
    if not path:
        data[key] = value
        return True
    step, rest = path[0], path[1:]
    if step != "*":
        return step in data and put(data[step], rest, key, value)
    return any(put(each, rest, key, value) for each in (data.values() if isinstance(data, dict) else data))


@pytest.mark.parametrize("row", WITH_FIELD, ids=lambda row: f"{row.keys[0]}-{row.field}")
def test_the_field_of_a_hint_exists_and_its_example_loads(row: ForeignKey, tmp_path: Path) -> None:
    holder, key = list(row.holder), row.field.split(".")[-1]
    assert any(key in model.model_fields for model in models_at(TopologyModel, row.holder))
    example = read_text(row.write, "example").data
    assert list(example) == [key]
    data = read_text(FULL, "full").data
    if key in ("redirect", "respond"):
        del data["routes"][0]["forward"]
    if row.write == "mode: passthrough":
        data["listeners"]["web"].update(mode="l4")
        del data["listeners"]["web"]["tls"]["certificates"]
        del data["routes"]
    elif row.write == "mode: l4":
        del data["listeners"]["web"]["tls"]
    assert put(data, holder, key, example[key])
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams/a.yaml").write_text("pools: { team: { endpoints: [{ address: 10.0.0.3:80 }] } }\n")
    (tmp_path / "full.yaml").write_text(dump(data))
    lbgen.load(tmp_path / "full.yaml")


def test_the_table_is_large_and_names_mappings_and_none_of_their_keys() -> None:
    assert len(WITH_FIELD) >= 60
    models = {model.__name__: model for model in models_of_topology()}
    for row in foreign_keys():
        assert row.write or row.say
        assert bool(row.field) == bool(row.write)
        assert set(row.mappings) <= set(models), row
        for name in row.mappings:
            assert not models[name].model_fields.keys() & set(row.keys), (name, row)


def test_no_key_has_two_meanings_in_one_mapping() -> None:
    seen: dict[tuple[str, str], ForeignKey] = {}
    for row in foreign_keys():
        for place in ((mapping, key) for mapping in row.mappings or ("any",) for key in row.keys):
            assert seen.setdefault(place, row) is row, place


def test_no_cause_of_the_table_is_one_of_lbgen() -> None:
    for cause in CAUSES:
        with pytest.raises(ValueError, match="is not a retry condition"):
            parse_retry_cause(cause)

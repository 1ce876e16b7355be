"""Keys and words of other tools: each finding says what to write, and the table names nothing that lbgen has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.diagnostics import LbgenError
from lbgen.spec.foreign_terms import CAUSES, KEYS
from lbgen.spec.http import parse_retry_cause
from lbgen.spec.load import load_bytes
from lbgen.spec.model import TopologyModel
from lbgen.spec.schema import _models

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
        (ROUTE.format("match: [{ host: a.example }]"), "hosts belong on the route: write hosts: [shop.example]"),
        (ROUTE.format("match: [{ path: /v1 }]"), "write path: { prefix: /v1 }"),
        (ROUTE.format("match: { path: { prefix: / } }"), "write it as a list: [{ ... }]"),
        (ROUTE.format("path: /v1"), "write match: [{ path: { prefix: /api } }]"),
        (ROUTE.format("listener: web"), "write listeners: [web], a list"),
        (ROUTE.format("listeners: web"), "write [web]"),
        (ROUTE.format("websocket: true"), "WebSockets need no key"),
        (ROUTE.format("proxy_pass: a"), "write forward: with the name of a pool"),
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
        (LISTENER.format("type: tcp"), "write mode: l7 or l4, and protocol: udp for datagrams"),
        (LISTENER.format("tls: { cert: a.crt }"), "write certificates: [{ cert: FILE, key: FILE }]"),
        (POOL.format("balance: least_conn"), 'did you mean "least_connections"?'),
        (POOL.format("balance: ip_hash"), "write source_hash"),
        (POOL.format("health: { active: { unhealthy_threshold: 3 } }"), "write fall: 3"),
        (POOL.format("health: { active: { interval: 5 } }"), "write 5s or 5ms"),
        ("version: 1\nname: x\nupstreams: {}\n", "write pools:"),
    ],
)
def test_what_other_tools_call_it_gets_the_words_to_write(text: str, says: str) -> None:
    assert says in hint(text)


def test_the_table_names_models_and_none_of_their_keys() -> None:
    models = {model.__name__: model for model in _models(TopologyModel)}
    assert set(KEYS) <= set(models)
    for name, keys in KEYS.items():
        assert not keys.keys() & models[name].model_fields.keys(), name


def test_no_cause_of_the_table_is_one_of_lbgen() -> None:
    for cause in CAUSES:
        with pytest.raises(ValueError, match="is not a retry condition"):
            parse_retry_cause(cause)

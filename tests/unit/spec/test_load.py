"""A whole topology: what the model holds, where its fields are, profiles under it, the schema beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lbgen import resources
from lbgen.diagnostics import LbgenError, Span
from lbgen.spec.load import Topology, load, load_bytes
from lbgen.spec.match import Match
from lbgen.spec.model import ForwardedHeaders
from lbgen.spec.profile import names
from lbgen.spec.schema import models_of_topology, schema

EVERYTHING = """
version: 1
name: shop
profile: production
listeners:
  web:    { port: 8080, trusted_proxies: [10.0.0.0/8], client_ip: { header: X-Real-IP } }
  secure: { port: 8443, tls: { certificates: [{ cert: shop.crt, key: shop.key, names: [shop.example] }],
                                 min_version: "1.2", mode: terminate,
            policy: intermediate, curves: [X25519],
            acme: { email: ops@shop.example, directory: "https://acme.internal/", domains: [shop.example], ca: a.crt },
            client: { ca: ca.crt, verify: optional } }, http2: true, proxy_protocol: accept,
            max_connections: 1000, paths: { allow: [empty_segments] },
            headers_with_underscores: pass, access: { deny: [192.0.2.0/24] },
            auth: { jwt: { issuer: "https://login.example", audience: [shop], jwks: keys.json,
                           claims_to_headers: { x-user: sub } } },
            limits: { headers: 16KiB, target: 8KiB },
            timeouts: { client_header: 10s, client_body: 20s, keepalive: 1m } }
  db:     { port: 5432, mode: l4 }
  dns:    { port: 53, mode: l4, protocol: udp, address: "::" }
  edge:   { port: 9443, mode: l4, tls: { mode: passthrough } }
pools:
  storefront:
    balance: round_robin
    endpoints:
      - { address: "10.0.2.10:8080", weight: 3 }
      - { address: "web-2:8080", backup: true }
    health:
      active:  { path: /healthz, port: 81, interval: 2s, timeout: 1s, fall: 3, rise: 2, expect: [200-299, 404] }
      passive: { failures: 5, eject_for: 10s }
    connections: { keepalive: 64, keepalive_idle: 4s, max_per_endpoint: 200, queue: { size: 100, timeout: 1s } }
    sticky: { cookie: LB, ttl: 1h, secure: true, secret: keys/sticky.key }
    tls: { verify: false, ca: certs/ca.crt, server_name: backend.internal, certificate: { cert: c.crt, key: c.key } }
    protocol: http1
    proxy_protocol: v2
    slow_start: 30s
    stand_ins: false
  hashed: { balance: { hash: { cookie: user } }, endpoints: [{ service: "api.shop:8080" }] }
error_pages:
  404: { file: missing.html }
  5xx: { body: down, content_type: text/html, status: 503, intercept: true }
routes:
  - name: canary
    hosts: [shop.example, "*.shop.example"]
    auth: { forward: { url: "http://sso:9091", path: /verify, request_headers: [cookie],
                       response_headers: [x-user], redirect_to: "https://login.example/" } }
    priority: 5
    match:
      - path: { prefix: /api }
        methods: [GET]
        headers: { X-Canary: "true", x-b: { regex: "a+" } }
        query: { beta: "1" }
        cookies: { plan: { present: true } }
    forward: api-v2
  - name: api
    match: [{ path: { prefix: /api } }]
    forward: [{ pool: api-v1, weight: 95 }, { pool: api-v2, weight: 5, request_headers: { set: { x-version: "2" } } }]
    timeouts: { connect: 1s, response: 5s, idle: 60s, request: 30s }
    retries: { max: 2, on: [connect_failure, reset, timeout, 502, 503, 504], methods: idempotent, budget: 20% }
    rate_limit: { rate: 100/s, burst: 50, key: client_ip }
    concurrency: { max: 200, key: { header: X-Key } }
    max_body: 10MiB
    buffering: { request: false, response: true }
    rewrite: { prefix: /v1, host: api.internal }
    request_headers: { set: { x-env: prod }, add: { x-tag: a }, remove: [x-debug] }
    response_headers: { set: { strict-transport-security: "max-age=63072000" } }
    mirror: { pool: shadow, percent: 10 }
    cors: { origins: [https://shop.example], methods: [GET], headers: [x-csrf], expose_headers: [x-total],
            credentials: true, max_age: 10m }
    compression: { types: [application/json], min_size: 1KiB }
    access: { allow: [10.0.0.0/8], deny: [] }
    policies: [slow]
  - { name: old, match: [{ path: { exact: /old } }], redirect: { path: /new, status: 301 } }
  - { name: away, match: [{ path: { exact: /away } }], redirect: { to: "https://new.example{uri}" } }
  - { name: moved, redirect: { scheme: https, host: new.example, port: 8443, prefix: /x } }
  - name: ok
    match: [{ path: { regex: "/health|/ok" } }]
    respond: { status: 200, body: "ok\\n", headers: { content-type: text/plain } }
  - { name: tenant-a, listeners: [edge], hosts: [a.example], sources: [10.0.0.0/8], forward: tenant-a }
  - { name: staff, auth: { basic: { users: users.htpasswd, realm: Staff } }, forward: api-v2 }
  - { name: open, auth: none, forward: api-v2 }
policies: { slow: { timeouts: { response: 1m }, retries: none } }
defaults: { route: { max_body: 2MiB }, pool: { health: none } }
engines:
  nginx: { http: "...", version: "1.22" }
  nftables: { forwarding: direct, device: eth0 }
  aws: { certificate_arns: { web: ["arn:aws:iam::111122223333:server-certificate/shop"] } }
accept: { nginx: [headers.connection_nominated] }
paths: strict
headers_with_underscores: drop
timeouts: { connect: 2s }
client_timeouts: { keepalive: 30s }
forwarded_headers: { x_forwarded: false, real_ip: true, forwarded: true }
request_id: false
access_log: json
ignore: [LB266]
limits: { headers: 16KiB }
tls: { policy: intermediate }
acme_challenge: { directory: /var/www/acme, port: 8403 }
max_body: 1MiB
buffering: { response: true }
response_headers: { set: { x-frame-options: DENY } }
containers: { memory: 512MiB, pids: 100, networks: [shop_default] }
resolvers: [10.0.0.2, "10.0.0.3:53"]
metrics: { port: 9100, address: 127.0.0.1 }
"""

# What a topology without tiers cannot have.
TIERED = """
version: 1
name: chained
tiers: { edge: { engine: haproxy }, web: { replicas: 2, hosts: [web-1, web-2] } }
listeners:
  public: { ports: 80-81, mode: l4, tier: edge }
  http: { port: 8081, tier: web }
pools:
  nodes: { tier: web, listener: http }
routes:
  - { name: in, listeners: [public], forward: nodes }
  - { name: ok, respond: { status: 200 } }
"""


def loaded(text: str) -> Topology:
    return load_bytes(text.encode(), "shop.yaml", Path())


def codes(data: Any) -> list[str]:
    with pytest.raises(LbgenError) as caught:
        load(data)
    return [d.code for d in caught.value.diagnostics]


def test_every_field_of_the_contract() -> None:
    topology = loaded(EVERYTHING)
    model = topology.model
    api = model.routes[1]
    assert topology.name == "shop"
    assert model.routes[0].forward is not None
    assert [(t.pool, t.weight) for t in model.routes[0].forward] == [("api-v2", 1)]
    assert model.routes[0].match is not None
    headers = model.routes[0].match[0].headers
    assert headers is not None
    assert headers["x-canary"].exact == "true"
    assert headers["x-b"].regex == "a+"
    assert model.pools["hashed"].balance is not None
    assert model.pools["hashed"].balance.hash is not None
    assert model.pools["hashed"].balance.hash.cookie == "user"
    assert model.pools["storefront"].endpoints[1].address == ("web-2", 8080, False)
    assert api.timeouts is not None
    assert (api.timeouts.connect, api.timeouts.request) == (1000, 30_000)
    assert api.retries is not None
    assert api.retries.on[:1] + api.retries.on[-1:] == ["connect_failure", 504]
    assert api.mirror is not None
    assert api.mirror[0].percent == 10
    assert api.concurrency is not None
    assert api.concurrency.key.header == "x-key"
    assert model.engines["nginx"].verbatim == {"http": "..."}
    assert model.engines["nginx"].version == "1.22"
    assert model.timeouts is not None
    assert (model.timeouts.connect, model.timeouts.response) == (2000, 60_000), (
        "the profile's value holds where none is said"
    )


def test_no_field_is_left_untried() -> None:
    """The topologies above have every field of every model, so each of them is tried here and in the schema; but those
    of matches, which the plan's tests load."""
    assert loaded(TIERED).model.tiers is not None
    text = EVERYTHING + TIERED
    for model in models_of_topology():
        of_match = model.__module__ == Match.__module__
        for field in model.model_fields:
            assert f"{field}:" in text or field in {"method", "by", "include", "none"} or of_match, (
                f"{model.__name__}.{field}"
            )


def test_places_of_fields() -> None:
    topology = loaded(EVERYTHING)
    assert topology.span("name") == Span("shop.yaml", 3, 7)
    assert topology.span("listeners.web.port", key=True) == Span("shop.yaml", 6, 13)
    assert topology.span("routes[0].forward[0].pool") == topology.span("routes[0].forward"), "written short"
    assert topology.span("timeouts.response").file.endswith("production.yaml"), "from the profile"
    assert topology.span("timeouts.connect").file == "shop.yaml"


def test_what_the_user_wrote_is_told_from_what_the_profile_says() -> None:
    for topology in (loaded(EVERYTHING), load({"version": 1, "name": "x", "timeouts": {"connect": "1s"}})):
        assert topology.wrote("timeouts.connect")
        assert not topology.wrote("timeouts.response")
        assert not topology.wrote("timeouts.request")
        assert topology.span("timeouts.connect").file == topology.file
        assert topology.span("timeouts.response").file.endswith("production.yaml")
        assert topology.span("routes[9]").file == topology.file


def test_python_data_is_a_topology_too() -> None:
    topology = load({"version": 1, "name": "x", "profile": "minimal"})
    assert topology.file == "<dict>"
    assert topology.model.forwarded_headers == ForwardedHeaders(x_forwarded=False)
    assert topology.span("name") == Span("<dict>")
    assert codes({"version": 1}) == ["LB103"]


def test_findings_are_told_together_and_in_order() -> None:
    text = "version: 1\nnaem: x\nprofile: none\nlisteners: { a: { port: 0, x: 1 }, B: { port: 1 } }\n"
    with pytest.raises(LbgenError) as caught:
        loaded(text)
    found = [(d.code, d.field) for d in caught.value.diagnostics]
    assert found == [
        ("LB103", "name"),
        ("LB101", "naem"),
        ("LB130", "profile"),
        ("LB104", "listeners.a.port"),
        ("LB101", "listeners.a.x"),
        ("LB112", "listeners.B"),
    ]


def test_a_fault_is_told_once() -> None:
    """Where YAML allows several shapes, only the shape that was written is judged."""
    route: dict[str, Any] = {"name": "r", "forward": "a"}
    head = {"version": 1, "name": "x"}
    for field, value in {
        "forward": [{"pool": "a", "weight": "5"}],
        "match": [{"headers": {"x": {"regex": "("}}}],
        "mirror": {"pool": "a", "percent": 101},
        "rate_limit": {"rate": "1/s", "key": "nobody"},
        "access": {},
        "redirect": {"path": "/"},
    }.items():
        assert len(codes({**head, "routes": [{**route, field: value}]})) == 1, field
    assert codes({**head, "pools": {"p": {"endpoints": [{"address": "a:1"}], "balance": {"hash": "x"}}}}) == ["LB105"]
    assert codes({**head, "paths": "loose"}) == ["LB104"]
    assert codes({**head, "paths": 5}) == ["LB105"]


@pytest.mark.parametrize("name", ["minimal", "production", "edge", "low-latency", "internal-l4"])
def test_built_in_profiles(name: str) -> None:
    assert name in names()
    model = load({"version": 1, "name": "x", "profile": name}).model
    assert model.timeouts is not None
    assert None not in (model.timeouts.connect, model.timeouts.response)
    assert model.forwarded_headers == ForwardedHeaders(x_forwarded=name in {"production", "edge", "low-latency"})
    assert model.access_log == ("json" if name in {"production", "edge"} else "none")
    assert (resources.folder("profiles") / f"{name}.yaml").read_text().startswith(f"# {name}: ")


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("timeouts: { connect: 7s }\nlisteners: { web: { port: 80, mode: l4 } }\n")
    topology = tmp_path / "t.yaml"
    topology.write_text("version: 1\nname: x\nprofile: ./mine.yaml\nlisteners: { web: { port: 81 } }\n")
    model = load(topology).model
    assert (model.listeners["web"].port, model.listeners["web"].mode) == (81, "l4")
    assert model.forwarded_headers is None, "one level: nothing lies under it"
    (tmp_path / "mine.yaml").write_text("timeouts: { connect: 7 }\nlistners: {}\n")
    with pytest.raises(LbgenError) as caught:
        load(topology)
    assert [(d.span.file, d.span.line) for d in caught.value.diagnostics] == [
        (str(tmp_path / "mine.yaml"), n) for n in (1, 2)
    ]


def test_lists_of_the_user_replace_those_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("accept: { nginx: [a, b] }\nresolvers: [10.0.0.1]\n")
    data = {"version": 1, "name": "x", "profile": str(tmp_path / "mine.yaml"), "accept": {"nginx": ["c"]}}
    model = load(data).model
    assert model.accept == {"nginx": ["c"]}
    assert model.resolvers == ["10.0.0.1"]


def test_true_is_a_truth_value_in_every_case_of_the_core_schema() -> None:
    assert loaded(EVERYTHING.replace("backup: true", "backup: True")).model.pools["storefront"].endpoints[1].backup


def test_schema_knows_every_field_and_no_null() -> None:
    text = json.dumps(schema())
    assert '"null"' not in text
    for model in models_of_topology():
        for field in model.model_fields:
            assert f'"{field}"' in text
    assert schema() == schema()
    assert schema()["required"] == ["version", "name"]


@pytest.mark.parametrize(("memory", "bound"), [("8MiB", "16MiB"), ("16383KiB", "16MiB"), ("3B", "16MiB")])
def test_a_bound_is_told_in_units_whether_it_comes_from_a_file_or_not(memory: str, bound: str) -> None:
    with pytest.raises(LbgenError) as caught:
        load({"version": 1, "containers": {"memory": memory}, "listeners": {"web": {"port": 80}}, "routes": []})
    told = [str(each.message) for each in caught.value.diagnostics if each.field == "containers.memory"]
    assert told == [f"{memory} is below {bound}"]

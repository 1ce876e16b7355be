"""nginx's own checker on every policy at once, with the longest names there can be."""

from __future__ import annotations

import re
import subprocess

import pytest

import lbgen
from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.engines.nginx import ENGINE
from lbgen.plan.resolve import plan
from tests.support.engine_lists import newest_first

pytestmark = pytest.mark.engines


# Each word that begins with a capital X gets 63 letters.
TOPOLOGY = """
version: 1
name: Xt
access_log: json
listeners:
  Xweb: { port: 20810, trusted_proxies: [10.0.0.0/8], limits: { headers: 24KiB, target: 4KiB }, access: { deny: [10.9.0.0/16] } }
  Xnormal: { port: 20811, paths: normalize }
  Xverbatim: { port: 20812, paths: verbatim }
  Xloose: { port: 20813, paths: { allow: [empty_segments, encoded_slash] } }
  Xfour: { port: 20814, mode: l4, max_connections: 5 }
pools:
  Xp: { endpoints: [{ address: "127.0.0.1:20900" }, { address: "127.0.0.1:20901" }], sticky: { cookie: XC } }
  Xq:
    endpoints: [{ address: "127.0.0.1:20902" }, { address: "127.0.0.1:20903", backup: true }]
    balance: least_connections
    sticky: { cookie: x }
  Xr:
    endpoints: [{ address: "127.0.0.1:20904" }]
    health: { active: { path: /h, interval: 1s, timeout: 500ms, fall: 2, rise: 2 } }
  Xs: { endpoints: [{ address: "127.0.0.1:20905" }], health: { passive: { failures: 2, eject_for: 5s } } }
routes:
  - name: Xone
    match: [{ path: { prefix: /one }, cookies: { Xc: "1" }, query: { Xq: { present: true } } }]
    forward: [{ pool: Xp, weight: 3, request_headers: { set: { x-a: "1" } } }, { pool: Xq, weight: 1 }]
    retries: { max: 3, on: [connect_failure, reset, timeout, 500, 502, 503, 504] }
    cors: { origins: ["https://a.example", "https://*.a.example"], methods: [GET, PUT], headers: [x-a], expose_headers: [x-b],
      credentials: true, max_age: 1m }
    compression: { types: [text/plain] }
    rate_limit: { rate: 5/s, key: client_ip }
    concurrency: { max: 3, key: { header: x-k } }
    max_body: 1MiB
    mirror: { pool: Xr, percent: 10 }
    access: { allow: [127.0.0.0/8] }
    rewrite: { prefix: /x }
    response_headers: { set: { x-z: $1 } }
    timeouts: { response: 1s, idle: 2s }
  - { name: Xtwo, match: [{ path: { prefix: /two } }], redirect: { prefix: /new }, rate_limit: { rate: 5/s, key: route } }
  - name: Xthree
    match: [{ path: { exact: /three/ } }]
    forward: Xr
    retries: { max: 1, on: [connect_failure] }
    buffering: { request: true, response: true }
  - { name: Xrest, forward: Xq }
  - { name: Xfour, listeners: [Xfour], sources: [127.0.0.0/8], forward: Xs }
"""  # noqa: E501


@pytest.mark.parametrize("subject", newest_first(engines_on_host(["nginx"])))
def test_everything_with_long_names_loads_without_a_word(subject: EngineUnderTest, tmp_path):
    long = re.sub(r"\bX([A-Za-z]+)", lambda found: found[1].ljust(63, "a"), TOPOLOGY)
    (tmp_path / "t.yaml").write_text(long, encoding="utf-8")
    topology = lbgen.load(tmp_path / "t.yaml", settings={"engines.nginx.version": subject.version})
    lbgen.render(topology, engine="nginx", accept=("all",)).write(tmp_path)
    check = ENGINE.check(plan(topology), subject.binary, tmp_path)
    done = subprocess.run(check.argv, capture_output=True, text=True, cwd=tmp_path)
    assert check.judge(done.returncode, done.stderr, {}) == ()
    told = [line for line in done.stderr.splitlines() if "[warn]" in line and "hash" in line]
    assert told == []

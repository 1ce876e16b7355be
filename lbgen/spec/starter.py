"""The text of the topology that `lbgen init` writes: small, commented, and loads as it stands."""

from __future__ import annotations

import re

from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.spec.dump import scalar
from lbgen.spec.values import NAME_PATTERN

_STARTER = """\
# A topology for lbgen: one description, the same behaviour on every engine.
#   lbgen check THIS_FILE       findings with file:line:column
#   lbgen render THIS_FILE      the engines' own configuration files
#   lbgen up THIS_FILE          start the engines, with stand-ins for the endpoints below
version: 1
name: @NAME@  # what ps, logs and down call it
profile: production             # what holds where nothing is said: minimal, production, edge,
                                # low-latency, internal-l4, or a file of yours such as ./profile.yaml

# Differences between engines that you agree to; one that differs elsewhere is left out. `lbgen explain` shows them.
# accept: [timeouts.idle]

listeners:
  web:
    port: 8080                  # on every IPv4 address; address: "::" for IPv4 and IPv6
    # trusted_proxies: [10.0.0.0/8]   # whose X-Forwarded-* and X-Request-Id are believed

pools:                          # endpoints that are the same service
  site:
    balance: round_robin        # or least_connections, source_hash
    endpoints:
      - { address: "127.0.0.1:9001", weight: 3 }
      - { address: "127.0.0.1:9002" }
  api:
    endpoints:
      - { address: "127.0.0.1:9003" }

# Tried by host (exact, wildcard, any), then path (exact, regex, longer prefix), then by how much else a match asks for;
# the order in the file decides last.
routes:
  - name: api
    match:
      - path: { prefix: /api }  # whole segments: /api and /api/x, not /apix
    forward: api
    rewrite: { prefix: /v1 }    # the endpoints see /v1/x
    timeouts: { connect: 1s }

  - name: moved
    match:
      - path: { exact: /start }
    redirect: { path: /, status: 301 }

  - name: health
    match:
      - path: { exact: /healthz }
    respond: { status: 200, body: "ok\\n" }

  - name: site                  # no match: everything else
    forward: site
"""


def starter(name: str = "shop") -> str:
    """The starter topology under that name; UsageError LB112 when it is not one."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(Diagnostic("LB112", f'"{name}" is not a name', hint="lower-case letters, digits, . _ -"))
    return _STARTER.replace("@NAME@", scalar(name))

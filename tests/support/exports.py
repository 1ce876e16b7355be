"""A topology whose routes change while an export of it runs, and the commands of the export's README."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import lbgen
from lbgen.runtime.standins.server import StandInServers, stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from lbgen.spec.load import load_bytes

# The file by which an engine is made to refuse all.
MAIN = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml", "traefik": "dynamic/http.yaml"}
_TOPOLOGY = """\
version: 1
name: {name}
listeners: {{ web: {{ port: {web} }} }}
pools:
  app: {{ endpoints: [{{ address: "{host}:{app}" }}] }}
  api: {{ endpoints: [{{ address: "{host}:{api}" }}] }}
routes:
  - {{ name: api, match: [{{ path: {{ prefix: {prefix} }} }}], forward: api }}
  - {{ name: rest, forward: app }}
"""


@dataclass(frozen=True)
class Moving:
    """`web` is the port of the listener, `app` and `api` are those of endpoints at the address `host`."""

    name: str
    web: int
    host: str
    app: int
    api: int

    def endpoints(self) -> AbstractContextManager[StandInServers]:
        return stand_in_servers(
            (StandIn("app", "app", self.host, self.app), StandIn("api", "api", self.host, self.api))
        )

    def commands(self, target: str, engine: str, prefix: str, folder: Path, after: str) -> str:
        """Export with a route for `prefix`; the first commands in the README that come after those words."""
        values = {"web": self.web, "host": self.host, "app": self.app, "api": self.api}
        text = _TOPOLOGY.format(name=self.name, prefix=prefix, **values)
        found = lbgen.export(load_bytes(text.encode(), f"{self.name}.yaml", Path.cwd()), target, engine=engine)
        found.write(folder)
        return commands(found.files["README.md"], after)


def commands(readme: str, after: str) -> str:
    """The first block of shell commands after those words."""
    return readme.partition(after)[2].partition("```sh\n")[2].partition("```")[0]

"""`lbgen agent`: active health checks for an engine that has none of its own, beside it."""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
`lbgen up` starts it by itself. Without `up`, say beside an nginx of systemd:

\b
  lbgen render shop.yaml -e nginx -o /etc/lbgen
  # nginx.service:   ExecStart=nginx -p /etc/lbgen/nginx/ -e stderr -c nginx.conf -g 'daemon off;'
  # agent.service:   ExecStart=lbgen agent /etc/lbgen/nginx
  #                  PartOf=nginx.service   Restart=on-failure

\b
Its user must be allowed to write the folder (the lists of endpoints in upstreams/,
agent.state.json) and to signal nginx, so run it as the user of nginx's master.
Start it again after a new `lbgen render`. nginx may end and come again meanwhile.
The files are written whole, several changes at a time, at most two reloads a second.
"""


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path), default=Path())
def command(folder: Path) -> None:
    """Check endpoints as agent.json in FOLDER says (default: here) and have the engine use those that are up.

    FOLDER is the engine's, as `lbgen render` wrote it. Each change is a line on standard error.
    """
    from lbgen.agent.run import Agent, load, serve

    serve(Agent(load(folder), folder.absolute()))

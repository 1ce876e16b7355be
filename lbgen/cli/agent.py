"""`lbgen agent`: active health checks for an engine that has none of its own, beside it."""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
Example (`lbgen up` starts it by itself; this is for an nginx of systemd's):
  lbgen render shop.yaml -e nginx -o /etc/lbgen
  lbgen agent /etc/lbgen/nginx

\b
  # nginx.service
  ExecStart=nginx -p /etc/lbgen/nginx/ -e stderr -c nginx.conf -g "daemon off;"
  ExecReload=kill -HUP $MAINPID
  # lbgen-agent.service
  PartOf=nginx.service
  Restart=on-failure
  ExecStart=lbgen agent /etc/lbgen/nginx

\b
Run it as the user of nginx's master: it writes the lists in upstreams/ and
agent.state.json, and sends the master SIGHUP. nginx may end and come again
meanwhile. A new agent.json, of another `lbgen render`, is followed within a second.
"""


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path), default=Path())
def command(folder: Path) -> None:
    """Check endpoints as agent.json in FOLDER says (default: here) and have the engine use those that are up.

    FOLDER is the engine's, as `lbgen render` wrote it. Each change is a line on standard error. Files are replaced
    whole, changes that come together are one reload, and there are at most two reloads a second.
    """
    from lbgen.agent.run import serve

    serve(folder.absolute())

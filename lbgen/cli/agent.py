"""`lbgen agent`: active health checks for an engine that has none of its own, and metrics."""

from __future__ import annotations

from pathlib import Path

import click

from lbgen.agent.run import serve

_EPILOG = """\b
Example for an nginx that systemd runs (`lbgen up` starts the agent itself):
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
Run it as the user of nginx's master process: it writes the lists in upstreams/
and agent.state.json, and sends SIGHUP to the master. nginx may be restarted
meanwhile. For nftables run it as root in the network of the rules: it writes
steering.nft, and loads it with `nft -f`.
The agent applies new files (another `lbgen render`) within a second.
"""


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path), default=Path())
def agent_command(folder: Path) -> None:
    """Check endpoints as FOLDER/agent.json specifies (default: here) and make the engine use healthy ones; count
    requests as FOLDER/metrics.json specifies, and serve the counts as Prometheus text.

    FOLDER is the engine's folder that `lbgen render` wrote. Each change is a line on standard error. Files are
    replaced atomically, simultaneous changes cause one reload, and there are at most two reloads a second (of rules in
    the kernel, any number).
    """
    serve(folder.absolute())

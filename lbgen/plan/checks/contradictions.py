"""Fields without effect beside another field of the same object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import ListenerTls, Paths, TlsDefaults


def check(context: Context) -> None:
    """LB228: exceptions of strict paths where paths are not strict, a version that the policy leaves out, names of a
    client's certificate, a time for idle connections where none is kept."""
    model = context.model
    for field, paths in _paths(context):
        if paths is not None and paths.allow and paths.mode != "strict":
            message = f"allow lists exceptions of strict paths, and the mode here is {paths.mode}"
            context.add("LB228", f"{field}.allow", message, "drop it, or write mode: strict", key=True)
    for field, tls in _policies(context):
        if tls is not None and tls.policy == "modern" and tls.min_version == "1.2":
            message = "the policy modern is TLS 1.3 only, so no client can use 1.2"
            context.add("LB228", f"{field}.min_version", message, "drop it, or write policy: intermediate", key=True)
    for name, pool in model.pools.items():
        connections = pool.connections
        if connections is not None and connections.keepalive == 0 and connections.keepalive_idle is not None:
            message = "keepalive: 0 keeps no connection, so none is ever unused"
            context.add("LB228", f"pools.{name}.connections.keepalive_idle", message, "drop it", key=True)
        shown = None if pool.tls is None else pool.tls.certificate
        if shown is not None and shown.names is not None:
            message = "names select among the certificates of a listener; endpoints always get this one"
            context.add("LB228", f"pools.{name}.tls.certificate.names", message, "drop it", key=True)


def _paths(context: Context) -> Iterator[tuple[str, Paths | None]]:
    yield "paths", context.model.paths
    for name, listener in context.model.listeners.items():
        yield f"listeners.{name}.paths", listener.paths


def _policies(context: Context) -> Iterator[tuple[str, ListenerTls | TlsDefaults | None]]:
    yield "tls", context.model.tls
    for name, listener in context.model.listeners.items():
        yield f"listeners.{name}.tls", listener.tls

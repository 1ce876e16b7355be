"""Certificates of listeners whose DNS names are unknown; listeners choose certificates by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.files import certificate_names

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context


def check(context: Context) -> None:
    """LB220: names are written, or can be read from the certificate."""
    for name, listener in context.model.listeners.items():
        if listener.tls is None or listener.tls.mode == "passthrough":
            continue
        for index, pair in enumerate(listener.tls.certificates or ()):
            if pair.names is not None:
                continue
            field = f"listeners.{name}.tls.certificates[{index}].cert"
            try:
                found = certificate_names(context.topology.base / pair.cert)
                reason = "it holds no DNS name"
            except (OSError, ValueError) as error:
                found, reason = (), getattr(error, "strerror", None) or "it is not a PEM certificate"
            if not found:
                message = f'the names of "{pair.cert}" cannot be read: {reason}'
                context.add("LB220", field, message, "write the names it serves: names: [shop.example]")

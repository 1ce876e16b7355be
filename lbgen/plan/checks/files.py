"""Files that a topology names: whether they are there, names of certificates, secrets of sticky cookies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.plan.error_pages import LARGEST_PAGE, read_page
from lbgen.plan.files import certificate_names
from lbgen.plan.sticky import SHORTEST_SECRET, read_secret
from lbgen.spec.source import note_read

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import Certificate
    from lbgen.spec.model import TopologyModel


def check(context: Context) -> None:
    """LB211: every file must exist and be readable; relative paths start at the folder of the topology."""
    for field, name in named_files(context.model):
        path = context.topology.base / name
        note_read(path)
        hint = "" if name.startswith("/") else f"looked for {Path(context.topology.file).parent / name}"
        try:
            with path.open("rb"):
                continue
        except IsADirectoryError:
            what = "is a folder"
        except (FileNotFoundError, NotADirectoryError):
            what = "does not exist"
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            hint = f"make {path} readable for the user who runs lbgen"
        context.add("LB211", field, f'the file "{name}" {what}', hint)


def named_files(model: TopologyModel) -> Iterator[tuple[str, str]]:
    """(field, path as written) of every file in the topology."""
    for name, listener in model.listeners.items():
        if listener.tls is not None:
            field = f"listeners.{name}.tls"
            for index, certificate in enumerate(listener.tls.certificates or ()):
                yield from _pair(f"{field}.certificates[{index}]", certificate)
            if listener.tls.client is not None:
                yield f"{field}.client.ca", listener.tls.client.ca
    for name, pool in model.pools.items():
        if pool.tls is not None:
            if pool.tls.ca is not None:
                yield f"pools.{name}.tls.ca", pool.tls.ca
            if pool.tls.certificate is not None:
                yield from _pair(f"pools.{name}.tls.certificate", pool.tls.certificate)


def _pair(field: str, certificate: Certificate) -> Iterator[tuple[str, str]]:
    yield f"{field}.cert", certificate.cert
    yield f"{field}.key", certificate.key


def check_certificates(context: Context) -> None:
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


def check_error_pages(context: Context) -> None:
    """LB237: the files of error pages must be readable wherever a plan is made, as their content is part of it."""
    model = context.model
    levels = [("error_pages", model.error_pages)]
    levels += [(f"listeners.{name}.error_pages", each.error_pages) for name, each in model.listeners.items()]
    levels += [(f"routes[{index}].error_pages", each.error_pages) for index, each in enumerate(model.routes)]
    for field, pages in levels:
        for key, page in (pages or {}).items():
            if page.file is None:
                continue
            path = context.topology.base / page.file
            note_read(path)
            try:
                read_page(path)
            except (OSError, ValueError) as error:
                reason = (getattr(error, "strerror", None) or str(error)).lower()
                hint = f"an error page is text in UTF-8 of at most {LARGEST_PAGE >> 10} KiB"
                place = f"{field}.{key}.file"
                context.add("LB237", place, f'the error page "{page.file}" cannot be used: {reason}', hint)


_MAKE = f"create a file with at least {SHORTEST_SECRET} random bytes: `openssl rand -hex 32 > FILE`"


def check_secrets(context: Context) -> None:
    """LB230: the values in a config come from the secret, so its file must be readable wherever a plan is made."""
    for name, pool in context.model.pools.items():
        if pool.sticky is None or pool.sticky.secret is None:
            continue
        path = context.topology.base / pool.sticky.secret
        note_read(path)
        try:
            read_secret(path)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f'the secret "{pool.sticky.secret}" cannot be used: {reason}'
            context.add("LB230", f"pools.{name}.sticky.secret", message, _MAKE)

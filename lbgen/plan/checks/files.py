"""Files that a topology names and that do not exist or cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import Certificate
    from lbgen.spec.model import TopologyModel


def check(context: Context) -> None:
    """LB211: every file must exist and be readable; relative paths start at the folder of the topology."""
    for field, name in named_files(context.model):
        path = context.topology.base / name
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

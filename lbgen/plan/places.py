"""Fields of a plan, and files that it names -> where they are written in the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.diagnostics import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.diagnostics import Span
    from lbgen.plan.model import Plan
    from lbgen.plan.tls import Certificate, File


def nearest(spans: Mapping[str, Span], field: str) -> Span:
    """The place of `field`, or of the nearest thing around it that has one."""
    while field and field not in spans:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return spans.get(field, NOWHERE)


def file_in(plan: Plan, text: str) -> tuple[str, str]:
    """Field and path of the topology's file that `text`, a message about files, names by its path; the longest path
    wins; both "" = none."""
    found = [
        (len(path), field, file.source or file.path)
        for field, file in files(plan)
        for path in (file.path, file.source or file.path)
        if path in text
    ]
    return max(found, default=(0, "", ""))[1:]


def files(plan: Plan) -> Iterator[tuple[str, File]]:
    """Field and file of everything that the topology reads from files."""
    for listener in plan.listeners:
        if listener.tls is not None:
            for pair in listener.tls.certificates:
                yield from _pair(pair)
            if listener.tls.client_ca is not None:
                yield f"{listener.field}.tls.client.ca", listener.tls.client_ca
    for pool in plan.pools:
        if pool.tls is not None:
            if pool.tls.certificate is not None:
                yield from _pair(pool.tls.certificate)
            if pool.tls.ca is not None:
                yield f"pools.{pool.name}.tls.ca", pool.tls.ca


def _pair(pair: Certificate) -> Iterator[tuple[str, File]]:
    yield f"{pair.field}.cert", pair.cert
    yield f"{pair.field}.key", pair.key

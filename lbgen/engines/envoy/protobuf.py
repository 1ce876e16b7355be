"""Protobuf values in Envoy's YAML: durations, messages with their type, and named extensions that hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data


def duration(milliseconds: int) -> str:
    """Milliseconds as a duration."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"


def typed(kind: str, fields: Mapping[str, Data] | None = None) -> dict[str, Data]:
    """A message of the protobuf type `kind`, such as `envoy.extensions.filters.http.rbac.v3.RBAC`."""
    return {"@type": f"type.googleapis.com/{kind}", **(fields or {})}


def extension(
    name: str, kind: str, fields: Mapping[str, Data] | None = None, *, disabled: bool = False
) -> dict[str, Data]:
    """An extension with its configuration, of the type `envoy.extensions.<kind>`.

    A disabled HTTP filter runs on the routes that enable it.
    """
    found: dict[str, Data] = {"name": name, "typed_config": typed(f"envoy.extensions.{kind}", fields)}
    return {**found, "disabled": True} if disabled else found

"""Protobuf messages in Envoy's YAML: durations, messages with their type, named extensions, and how messages merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def duration(milliseconds: int) -> str:
    """Milliseconds as a duration."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"


def typed(kind: str, fields: Mapping[str, Data] | None = None) -> dict[str, Data]:
    """A message of the protobuf type `kind`, such as `envoy.extensions.filters.http.rbac.v3.RBAC`."""
    return {"@type": f"type.googleapis.com/{kind}", **(fields or {})}


def watch(path: str) -> dict[str, Data]:
    """A source of resources: a file that Envoy reads again when it is replaced by a rename."""
    return {"resource_api_version": "V3", "path_config_source": {"path": path}}


def extension(
    name: str, kind: str, fields: Mapping[str, Data] | None = None, *, disabled: bool = False
) -> dict[str, Data]:
    """An extension with its configuration, of the type `envoy.extensions.<kind>`.

    A disabled HTTP filter runs on the routes that enable it.
    """
    found: dict[str, Data] = {"name": name, "typed_config": typed(f"envoy.extensions.{kind}", fields)}
    return {**found, "disabled": True} if disabled else found


ENABLED = typed("envoy.config.route.v3.FilterConfig", {"config": {}})  # of a route that enables a filter


def merge(fragments: Iterable[Mapping[str, Data]]) -> dict[str, Data]:
    """One message of fragments, as protobuf merges them: messages field by field, lists one after the other, and of
    other values the last."""
    found: dict[str, Data] = {}
    for fragment in fragments:
        for key, value in fragment.items():
            there = found.get(key)
            if isinstance(there, dict) and isinstance(value, dict):
                found[key] = merge((there, value))
            elif isinstance(there, list) and isinstance(value, list):
                found[key] = [*there, *value]
            else:
                found[key] = value
    return found


def arrange(message: Mapping[str, Data], first: Sequence[str], last: Sequence[str] = ()) -> dict[str, Data]:
    """The fields of a message in an order for readers, which has no meaning to Envoy."""
    between = [key for key in message if key not in first and key not in last]
    return {key: message[key] for key in (*first, *between, *last) if key in message}

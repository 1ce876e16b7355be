"""Labels of containers, networks and volumes, by which later commands find and compare them.

Labels never change; a container that was reloaded has a newer record in its folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from lbgen.runtime.common.state import Address

STACK = "io.lbgen.stack"
RECORD_FILE = ".lbgen-record"
_HASH = "io.lbgen.hash"
_RECORD = "io.lbgen.record"


class Role(StrEnum):
    ENGINE = "engine"
    ENDPOINTS = "endpoints"
    PORTS = "ports"  # holds an engine's network namespace while the engine is replaced
    AGENT = "agent"
    ENDPOINT_RULES = "endpoint-rules"  # loads rules into the containers of endpoints
    LOADER = "loader"  # runs one command for ENDPOINT_RULES, whatever else happens to the stack
    CHECK = "check"  # temporary


@dataclass(frozen=True, slots=True)
class Record:
    """The description of a container. `hash` is the digest of its specification, "" during a reload; `shape` the digest
    without its files. Never holds a secret."""

    stack: str
    role: Role
    hash: str
    shape: str = ""
    engine: str = ""
    title: str = ""
    version: str = ""  # for which its files were rendered
    program_version: str = ""  # of the image, where known
    offset: int = 0  # of its listeners' ports
    side: int = 0  # which of the two addresses its listeners have; of PORTS: which one serves
    addresses: tuple[Address, ...] = ()
    access_log: str = ""
    detail: str = ""  # JSON: of stand-ins, their endpoints; of engines, how they drain
    files: Mapping[str, str] = field(default_factory=dict)  # name -> digest, as written
    metrics: str = ""  # URL on the host

    @property
    def metrics_port(self) -> int:
        """The published port of its metrics, 0 without any."""
        return urlsplit(self.metrics).port or 0

    def text(self) -> bytes:
        """Its serialisation for the record file, which takes precedence over the labels."""
        return json.dumps(self.labels()).encode()

    def updated(self, text: bytes | None) -> Record:
        """The record in the text of a record file; itself when that is missing or of another container."""
        try:
            found = Record.from_labels(json.loads(text)) if text else None
        except (ValueError, TypeError):
            return self
        same = found is not None and (found.stack, found.role, found.engine) == (self.stack, self.role, self.engine)
        return found if found is not None and same else self

    def labels(self) -> dict[str, str]:
        """Its serialisation as labels."""
        rest = {key: value for key, value in msgspec.to_builtins(self).items() if key not in ("stack", "hash")}
        return {STACK: self.stack, _HASH: self.hash, _RECORD: json.dumps(rest, sort_keys=True)}

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Record | None:
        """The record in labels; None when they are not ours, or of another lbgen."""
        try:
            rest = json.loads(labels[_RECORD])
            rest["role"] = Role(rest["role"])
            rest["addresses"] = tuple(Address(**address) for address in rest["addresses"])
            return cls(stack=labels[STACK], hash=labels[_HASH], **rest)
        except (KeyError, ValueError, TypeError):
            return None

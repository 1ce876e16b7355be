"""What containers, networks and volumes of ours are marked with: all that a later command needs to find and judge.

Labels never change; a container that took over a change has a newer record in its folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.runtime.common.state import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

STACK = "io.lbgen.stack"
RECORD_FILE = ".lbgen-record"
_HASH = "io.lbgen.hash"
_RECORD = "io.lbgen.record"


class Role(StrEnum):
    ENGINE = "engine"
    ENDPOINTS = "endpoints"
    PORTS = "ports"  # has the network of an engine, so that the next engine finds it as it was
    AGENT = "agent"
    CHECK = "check"  # thrown away once the engine has said what it thinks of its files


@dataclass(frozen=True, slots=True)
class Record:
    """What a container is. `hash` changes with all that it is made of, "" while it takes over a change; `shape` with
    all but its files. Never holds a secret."""

    stack: str
    role: Role
    hash: str
    shape: str = ""
    engine: str = ""
    title: str = ""
    version: str = ""  # that its files were rendered for
    program_version: str = ""  # as far as the image tells
    offset: int = 0  # of its listeners' ports
    side: int = 0  # which of the two addresses its listeners have; of PORTS: which one is served
    addresses: tuple[Address, ...] = ()
    access_log: str = ""
    detail: str = ""  # JSON: of stand-ins, whom they stand for; of engines, how they leave
    files: Mapping[str, str] = field(default_factory=dict)  # name -> digest, as they were put there

    def text(self) -> bytes:
        """As a file of the container's folder, which says more than the labels once it is there."""
        return json.dumps(self.labels()).encode()

    def updated(self, text: bytes | None) -> Record:
        """What such a file says; itself when it says nothing of the same part of the same stack."""
        try:
            found = Record.from_labels(json.loads(text)) if text else None
        except (ValueError, TypeError):
            return self
        same = found is not None and (found.stack, found.role, found.engine) == (self.stack, self.role, self.engine)
        return found if found is not None and same else self

    def labels(self) -> dict[str, str]:
        """As labels of a container."""
        rest = {key: value for key, value in asdict(self).items() if key not in ("stack", "hash")}
        return {STACK: self.stack, _HASH: self.hash, _RECORD: json.dumps(rest, sort_keys=True)}

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Record | None:
        """What labels say; None when they are not ours, or another lbgen's."""
        try:
            rest = json.loads(labels[_RECORD])
            rest["role"] = Role(rest["role"])
            rest["addresses"] = tuple(Address(**address) for address in rest["addresses"])
            return cls(stack=labels[STACK], hash=labels[_HASH], **rest)
        except (KeyError, ValueError, TypeError):
            return None

"""What containers, networks and volumes of ours are marked with: all that a later command needs to find and judge."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.runtime.local.state import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

STACK = "io.lbgen.stack"
_PREFIX = "io.lbgen."
_HASH = "io.lbgen.hash"
_RECORD = "io.lbgen.record"


class Role(StrEnum):
    ENGINE = "engine"
    ENDPOINTS = "endpoints"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Record:
    """What a container is. `hash` changes when another one would be made in its place; never holds a secret."""

    stack: str
    role: Role
    hash: str
    engine: str = ""
    title: str = ""
    version: str = ""  # that its files were rendered for
    program_version: str = ""  # as far as the image tells
    offset: int = 0  # of its listeners' ports
    addresses: tuple[Address, ...] = ()
    access_log: str = ""
    detail: str = ""  # JSON: of stand-ins, whom they stand for

    def labels(self) -> dict[str, str]:
        """As labels of a container."""
        rest = {key: value for key, value in asdict(self).items() if key not in ("stack", "hash")}
        return {STACK: self.stack, _HASH: self.hash, _RECORD: json.dumps(rest, sort_keys=True)}

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Record | None:
        """What labels say; None when they are not ours, or another lbgen's."""
        try:
            rest = json.loads(labels[_RECORD])
            rest["role"] = Role(rest["role"])
            rest["addresses"] = tuple(Address(**address) for address in rest["addresses"])
            return cls(stack=labels[STACK], hash=labels[_HASH], **rest)
        except (KeyError, ValueError, TypeError):
            return None

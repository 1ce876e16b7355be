"""Labels of containers, networks and volumes, by which later commands find and compare them.

Labels never change; a container that was reloaded has a newer record in its folder.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.model import Plan  # read at run time by saved
from lbgen.runtime.common import saved
from lbgen.runtime.common.health import Member, members
from lbgen.runtime.common.state import Address, lock, root, store
from lbgen.runtime.standins.plan import StandInSet  # read at run time by saved
from lbgen.system_errors import remedy

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


class Record(Struct, frozen=True):
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
            return msgspec.convert({**rest, "stack": labels[STACK], "hash": labels[_HASH]}, cls)
        except (KeyError, ValueError, TypeError, msgspec.ValidationError):
            return None


PLAN_SCHEMA = 1  # of the file of the saved plan
_PLAN_FILE = "kept"


class SavedPlan(Struct, frozen=True):
    """`plan`: what the stack serves; `stand_in_set`: the stand-ins that were ever started; `accept`: the accepted
    verdicts; `backends`: whether stand-ins serve as endpoints."""

    plan: Plan
    stand_in_set: StandInSet
    accept: tuple[str, ...]
    backends: bool

    def members(self) -> tuple[Member, ...]:
        """The endpoints under their names, at the addresses that the engines have."""
        host = self.stand_in_set.stand_ins[0].host if self.stand_in_set.stand_ins else ""
        return members(self.plan, self.stand_in_set.apply_to(self.plan, host))

    def write(self) -> None:
        """Save it atomically. Raises EngineError LB408."""
        saved.write(saved_folder(self.plan.name) / _PLAN_FILE, PLAN_SCHEMA, self)


def saved_folder(stack: str) -> Path:
    """The folder of a stack in the state directory."""
    return root() / "docker" / stack


def read_saved_plan(stack: str) -> SavedPlan | None:
    """None where another user or another lbgen made the stack, which can be replaced then, not changed."""
    return saved.read(saved_folder(stack) / _PLAN_FILE, PLAN_SCHEMA, SavedPlan)


OWNER = "io.lbgen.owner"
OWNER_PATH = "io.lbgen.owner-path"
_ID_FILE = "id"


def owner_labels() -> dict[str, str]:
    """The labels of what this state directory owns. Raises EngineError LB408."""
    return {OWNER: _directory_id(), OWNER_PATH: str(root())}


def foreign_owner(found: Mapping[str, str]) -> str:
    """The owner by the labels of a container, network or volume, in words; "" = this state directory. Without such
    labels the owner is unknown, and counts as another. Raises EngineError LB408."""
    if found.get(OWNER) == _directory_id():
        return ""
    path = found.get(OWNER_PATH)
    return f"the state directory {path}" if path else "an unknown state directory"


def _directory_id() -> str:
    """A random id, as two hosts or containers may share a daemon and have their state directories at the same path."""
    path = root() / _ID_FILE
    try:
        if not path.exists():
            with lock("id"):  # of two processes the first one wins
                if not path.exists():
                    store(path, secrets.token_hex(16).encode())
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise EngineError(Diagnostic("LB408", f"{path}: {error.strerror}", hint=remedy(error))) from None
    except ValueError as error:
        raise EngineError(Diagnostic("LB408", f"{path} cannot be read: {error}", hint="remove it")) from None

"""The state of each certificate from an ACME authority: a small file, which `lbgen ps` shows."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from lbgen.agent.certificate_store import put
from lbgen.diagnostics import counted

FILE = "acme.state.json"
BEAT_SECONDS = 30.0  # how often the agent writes it at least, so that readers see that it runs
_FRESH_SECONDS = 90.0
_DAY = 86_400


class CertificateState(Struct, frozen=True):
    """Times are seconds of the epoch. `issued` False: a self-signed certificate still stands in its place. `renewal`:
    when the next order is due. `failures` in a row, the last for `failure`; `retry`: when the next one may be tried,
    `limited`: as the authority said so."""

    name: str
    domains: tuple[str, ...]
    issued: bool = False
    expires: float = 0
    renewal: float = 0
    failures: int = 0
    failure: str = ""
    retry: float = 0
    limited: bool = False

    def describe(self, now: float) -> str:
        """One line for people."""
        what = f"certificate of {', '.join(self.domains)}"
        if self.issued:
            left = f"is valid for {counted({'day': int((self.expires - now) / _DAY)})}, until"
            what += f" {left if self.expires > now else 'expired on'} {_date(self.expires)}"
            if self.renewal > now and not self.failure:
                what += f"; renewed from {_date(self.renewal)}"
        else:
            what += " is not issued yet: clients see a self-signed one"
        if self.failure:
            again = f"next try {_date(self.retry)}" if self.retry > now else "tried again now"
            what += f"; {self.failures} failed {'order' if self.failures == 1 else 'orders'}: {self.failure}; {again}"
        return what


class _File(Struct, frozen=True):
    certificates: tuple[CertificateState, ...]
    unloaded: bool = False


def read(folder: Path) -> tuple[CertificateState, ...]:
    """The states in the file in `folder`; empty when it cannot be read."""
    return read_file(folder)[0]


def read_fresh(folder: Path) -> tuple[CertificateState, ...]:
    """As `read`; empty where no agent has written the file for a while."""
    try:
        age = time.time() - (folder / FILE).stat().st_mtime
    except OSError:
        return ()
    return read(folder) if age <= _FRESH_SECONDS else ()


def read_file(folder: Path) -> tuple[tuple[CertificateState, ...], bool]:
    """The states, and whether the engine may not have loaded what was put in its place."""
    try:
        return parse((folder / FILE).read_bytes())
    except OSError:
        return (), False


def parse(content: bytes) -> tuple[tuple[CertificateState, ...], bool]:
    """As `read_file`, of a file with that content."""
    try:
        found = msgspec.json.decode(content, type=_File)
    except msgspec.MsgspecError:
        return (), False
    return found.certificates, found.unloaded


def write(folder: Path, states: tuple[CertificateState, ...], *, unloaded: bool = False) -> None:
    """Replace the file in `folder`. Raises OSError."""
    content = msgspec.json.format(msgspec.json.encode(_File(states, unloaded)), indent=1) + b"\n"
    put(folder / FILE, content)


def _date(seconds: float) -> str:
    return time.strftime("%F %T", time.localtime(seconds))

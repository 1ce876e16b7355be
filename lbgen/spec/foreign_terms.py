"""Keys and words of nginx, HAProxy, Envoy, Traefik, Caddy, Kubernetes and compose: what to write in a topology."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from lbgen.spec.source import read_file

_TABLE = Path(__file__).parent / "foreign_keys.yaml"
_OWNERS = {"listeners": "listener", "pools": "pool", "routes": "route"}


class ForeignKey(Struct, frozen=True, rename={"mappings": "in"}):
    """Keys of other tools that mean one field. `field`: its path, with `*` for a name or a number; "" where lbgen has
    none. `write`: an example of it. `say`: a sentence after it, or alone. `mappings`: the classes of the mappings where
    the keys mean that; any when empty."""

    keys: tuple[str, ...]
    field: str = ""
    write: str = ""
    say: str = ""
    mappings: tuple[str, ...] = ()

    @property
    def holder(self) -> tuple[str, ...]:
        """The path of the mapping that has the field, in steps."""
        return tuple(self.field.split(".")[:-1])

    def hint(self, *, here: bool) -> str:
        """The remedy of a finding; `here`: the key was found in the mapping that has the field."""
        if not self.write:
            return self.say
        place = "" if here else f" {_place(self.holder)}"
        return f"write {self.write}{place}" + (f"; {self.say}" if self.say else "")


@cache
def foreign_keys() -> tuple[ForeignKey, ...]:
    """The table, in its order."""
    rows = ({**row, "keys": [_plain(key) for key in row["keys"]]} for row in read_file(_TABLE).data)
    return msgspec.convert(list(rows), tuple[ForeignKey, ...])


def foreign_key(key: str, mapping: str) -> ForeignKey | None:
    """What a key of other tools means in a mapping of that class; None when the table does not say."""
    plain = _plain(key)
    return next((row for row in foreign_keys() if plain in row.keys and mapping in row.mappings), None)


def foreign_key_anywhere(key: str) -> ForeignKey | None:
    """What a key of other tools means wherever it is found."""
    plain = _plain(key)
    return next((row for row in foreign_keys() if plain in row.keys and not row.mappings), None)


def _plain(key: str) -> str:
    """Without what the spellings of tools differ in."""
    return key.lower().replace("-", "").replace("_", "").replace(" ", "")


def _place(holder: tuple[str, ...]) -> str:
    """Where a field is, in words."""
    if not holder:
        return "at the top level"
    owner = _OWNERS[holder[0]]
    inner = [step for step in holder[2:] if step != "*"]
    return f"in {inner[-1]}: of the {owner}" if inner else f"on the {owner}"


ANCHORS = "write policies: { NAME: { ... } } for what routes share, defaults: for what all have; variables hold values"
"""What to write instead of a key that holds anchors."""
# By the key of the value and the word.
WORDS: dict[tuple[str, str], str] = {
    ("mode", "tcp"): "write mode: l4",
    ("mode", "udp"): "write mode: l4, protocol: udp",
    ("mode", "http"): "write mode: l7",
    ("mode", "https"): "write mode: l7, and tls: for the certificates",
    ("protocol", "http"): "leave it out, or write mode: l7",
    ("protocol", "https"): "write tls: for it",
    ("protocol", "h2c"): "write http2",
    ("protocol", "h2"): "write http2",
    **dict.fromkeys((("method", "ip_hash"), ("method", "source")), "write source_hash"),
    **dict.fromkeys(
        (("method", "rr"), ("method", "wrr"), ("method", "weighted")), "write round_robin; weights are on endpoints"
    ),
    ("method", "leastconn"): "write least_connections",
    **dict.fromkeys((("by", "ip"), ("by", "client"), ("by", "remote_addr")), "write client_ip"),
    **dict.fromkeys((("by", "all"), ("by", "global")), "write route"),
}
# Conditions of retries.
CAUSES: dict[str, str] = {
    "5xx": "write the statuses: 500, 502, 503, 504",
    "4xx": "write the statuses, such as 409, 429",
    "gateway-error": "write 502, 503, 504",
    "connect-failure": "write connect_failure",
    "error": "write connect_failure, reset",
    "read": "write reset, and timeout",
    "refused-stream": "write reset",
    **{f"http-{status}": f"write {status}" for status in (429, 500, 502, 503, 504)},
}

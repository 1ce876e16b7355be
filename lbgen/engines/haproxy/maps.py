"""Map and list files, where a lookup costs the same for any number of entries, and statements that differ by route: a
few with ACLs, or one that looks its value up in a map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.statements import Acl, Statement, acl
from lbgen.engines.text import Literal
from lbgen.plan.precedence import group

INLINE_NETWORKS = 20  # in one ACL; more go to a list file
_INLINE_VALUES = 30  # in one ACL; HAProxy accepts 64 words per line
_MAP_FROM = 4  # distinct values: from here on one map lookup costs less than a list of ACLs
_BLANK = re.compile(r"[ \t\n]")


class MapFile(Struct):
    """Keys and values; a key without value makes it a list file."""

    name: str
    title: str
    entries: list[tuple[str, str, str]] = field(default_factory=list)  # key, value, topology field

    def add(self, key: str, value: str, origin: str) -> None:
        """Append `key value`; ValueError for what a map file cannot hold."""
        if not key or key[0] == "#" or _BLANK.search(key) or "\n" in value or value != value.strip(" \t"):
            raise ValueError(f"{key!r} {value!r} does not fit into a map file")
        self.entries.append((key, value, origin))

    def rendered(self) -> RenderedFile:
        """The file, a comment on top."""
        lines = [f"# {self.title}", *(f"{key} {value}".rstrip() for key, value, _ in self.entries)]
        return RenderedFile(self.name, "\n".join(lines) + "\n", ("", *(origin for _, _, origin in self.entries)))


class Maps(Struct):
    """The map files of one listener, by purpose; their paths are relative to the folder of haproxy.cfg."""

    listener: str
    files: dict[str, MapFile] = field(default_factory=dict)

    def file(self, purpose: str, title: str) -> MapFile:
        """The map file for `purpose`, created at first use."""
        name = f"maps/{self.listener}.{purpose}"
        return self.files.setdefault(name, MapFile(name, title))

    def is_one_of(
        self, sample: str, keys: Sequence[str], purpose: str, origins: Mapping[str, str], most: int = _INLINE_VALUES
    ) -> Acl:
        """An ACL that holds when `sample`, a text, is one of `keys`; more than `most` keys go to a list file."""
        if len(keys) <= most:
            return acl(f"{sample} -m str {' '.join(keys)}")
        listed = self.file(f"{purpose}.lst", f"values of {sample}")
        for key in keys:
            listed.add(key, "", origins.get(key, ""))
        return acl(f"{sample} -m str -f {listed.name}")

    def is_within(self, sample: str, networks: Sequence[str], purpose: str, origin: str) -> Acl:
        """An ACL that holds when the address `sample` is in one of `networks`; many of them go to a list file."""
        if len(networks) <= INLINE_NETWORKS:
            return acl(sample, *networks)
        listed = self.file(f"{purpose}.lst", "networks")
        for network in networks:
            listed.add(network, "", origin)
        return acl(sample, f"-f {listed.name}")

    def rendered(self) -> Iterable[RenderedFile]:
        """All files in the order of their names."""
        return (self.files[name].rendered() for name in sorted(self.files))


class PerRoute(Struct, frozen=True, eq=False):
    """Writes statements for some routes of a listener, selected by `variable`.

    `all_keys` are the values that the variable can have where the statements stand, `any_key` the ACL that holds for
    each of them (None: they need no ACL), `origins` the topology fields by key.
    """

    maps: Maps
    variable: str
    all_keys: frozenset[str]
    any_key: Acl | None
    origins: Mapping[str, str]

    def restrict(self, action: Statement, keys: Sequence[str], purpose: str) -> Statement:
        """`action` for the routes with these keys only; `purpose` names the list file that many keys need."""
        return action.extend(acls=self._acls(keys, purpose), origin=self._origin(keys))

    def with_values(
        self, action: Statement, values: Mapping[str, str], purpose: str, end: Sequence[str | Sample] = ()
    ) -> list[Statement]:
        """`action` with the value of the request's route as its last argument, a log-format text; `end` follows every
        value."""
        groups = group((value, key) for key, value in values.items())
        if len(groups) < _MAP_FROM:
            return [
                action.extend(
                    Literal(log_format(value, *end)),
                    acls=self._acls(keys, f"{purpose}.{number}"),
                    origin=self._origin(keys),
                )
                for number, (value, keys) in enumerate(groups.items(), 1)
            ]
        mapped = self.maps.file(f"{purpose}.map", f"value of {self.variable} -> {purpose}")
        for key, value in values.items():
            mapped.add(key, value, self.origins.get(key, ""))
        lookup = f"var({self.variable}),map_str({mapped.name})"
        argument = Literal(log_format(Sample(lookup), *end))
        return [action.extend(argument, acls=[acl(f"{lookup} -m found")], origin=self._origin(list(values)))]

    def _acls(self, keys: Sequence[str], purpose: str) -> Sequence[Acl]:
        if self.all_keys <= set(keys):
            return () if self.any_key is None else (self.any_key,)
        return (self.maps.is_one_of(f"var({self.variable})", keys, purpose, self.origins),)

    def _origin(self, keys: Sequence[str]) -> str:
        return self.origins.get(keys[0], "") if keys else ""

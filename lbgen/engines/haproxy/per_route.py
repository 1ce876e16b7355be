"""Statements whose values differ by route: a few with ACLs, or one that looks its value up in a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.statements import Acl, Statement, acl
from lbgen.engines.text import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.engines.haproxy.maps import Maps

_MAP_FROM = 4  # distinct values: from here on one map lookup costs less than a list of ACLs


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
        groups: dict[str, list[str]] = {}
        for key, value in values.items():
            groups.setdefault(value, []).append(key)
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

"""Who may come in, and how much: access lists, limits of a head, rates, requests at a time, sizes of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lbgen.engines.haproxy.compression import asking_lines, packing
from lbgen.engines.haproxy.cors import asked_lines, preflight_lines
from lbgen.engines.haproxy.quote import Sample, argument
from lbgen.engines.haproxy.statements import Line, line
from lbgen.engines.text import Literal
from lbgen.plan.policy import KeyKind
from lbgen.plan.reason_phrases import reason_phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.engines.haproxy.statements import Maps
    from lbgen.plan.model import Listener, Route
    from lbgen.plan.policy import Access, Key

TABLE = "lbgen:under_way"  # where requests under way are counted
_INLINE = 20  # networks in a condition; more go to a file
_T = TypeVar("_T")


def refuse(status: int) -> tuple[str, ...]:
    """The words of a statement that answers with `status` and its reason phrase."""
    return (f"http-request return status {status} content-type text/plain string", f'"{reason_phrase(status)}\\n"')


class Admission:
    """The statements of one listener. `routes` are (key, route) of everything a request can be found to be on."""

    def __init__(self, listener: Listener, routes: Sequence[tuple[str, Route]], chooser: Chooser, maps: Maps) -> None:
        self._listener = listener
        self._routes = routes
        self._chooser = chooser
        self._maps = maps
        counted = [r.rate_limit.key for _, r in routes if r.rate_limit] + [
            r.concurrency.key for _, r in routes if r.concurrency
        ]
        by_address = (
            listener.access
            or any(route.access for _, route in routes)
            or any(key.kind is KeyKind.CLIENT_IP for key in counted)
        )
        self._walks = bool(by_address and listener.trusted_proxies)
        self.client = "var(txn.client)" if self._walks else "src"

    def early(self) -> list[Line]:
        """Before a route is looked for: limits of the head, and the listener's own access list."""
        listener = self._listener
        limits = listener.limits
        lines = []
        if limits.target is not None:
            lines.append(line(f"{listener.field}.limits", *refuse(431), f"if {{ url_len gt {limits.target} }}"))
        if limits.headers is not None:  # the sample counts the line break at the end as well
            most = limits.headers + 2
            lines.append(line(f"{listener.field}.limits", *refuse(431), f"if {{ req.hdrs,length gt {most} }}"))
        if self._walks:
            networks = ",".join(listener.trusted_proxies)
            peer = self._within("src", listener.trusted_proxies, "trusted", listener.field)
            lines += [
                line(listener.field, "http-request set-var(txn.client) src"),
                line(
                    listener.field,
                    f"http-request lua.client {networks}",
                    "if",
                    peer,
                    "{ req.fhdr_cnt(x-forwarded-for) gt 0 }",
                ),
            ]
        if listener.access is not None:
            field = f"{listener.field}.access"
            for unless in self._unwelcome(listener.access, "listener", field):
                lines.append(line(field, *refuse(403), *(("if", *unless) if unless else ())))
        return lines

    def late(self) -> list[Line]:
        """Once the route is known."""
        shared = [key for key, route in self._routes if route.cors]
        return [
            *asked_lines(self._listener.name, shared, self._chooser),
            *self._access(),
            *preflight_lines(shared),
            *self._rates(),
            *self._under_way(),
            *self._bodies(),
            *asking_lines(packing(self._routes), self._chooser),
        ]

    def _within(self, sample: str, networks: Sequence[str], purpose: str, origin: str) -> str:
        if len(networks) <= _INLINE:
            return f"{{ {sample} -m ip {' '.join(networks)} }}"
        listed = self._maps.file(f"{purpose}.lst", "networks")
        for network in networks:
            listed.add(network, "", origin)
        return f"{{ {sample} -m ip -f {listed.name} }}"

    def _unwelcome(self, access: Access, purpose: str, origin: str) -> Iterator[tuple[str, ...]]:
        """Conditions of which each keeps a client out; an empty one keeps all out."""
        if access.deny:
            yield (self._within(self.client, access.deny, f"{purpose}.deny", origin),)
        if access.allow:
            yield (f"!{self._within(self.client, access.allow, f'{purpose}.allow', origin)}",)
        elif access.allow is not None:
            yield ()

    def _access(self) -> Iterator[Line]:
        for number, (access, keys) in enumerate(_grouped((k, r.access) for k, r in self._routes), 1):
            purpose = f"access.{number}"
            for unless in self._unwelcome(access, purpose, self._chooser.origins.get(keys[0], "")):
                yield self._chooser.only(refuse(403), keys, purpose, *unless)

    def _rates(self) -> Iterator[Line]:
        """The bucket is kept in Lua, where taking a token is one step that no other thread can come between."""
        limited = [(key, route) for key, route in self._routes if route.rate_limit]
        if not limited:
            return
        buckets: dict[str, str] = {}
        for key, route in limited:
            limit = route.rate_limit
            assert limit is not None  # noqa: S101  # picked for it
            buckets[key] = f"{limit.amount}/{limit.seconds}/{limit.burst}"
        yield from self._keyed(
            "txn.bucket", {key: (route, route.rate_limit.key) for key, route in limited if route.rate_limit}
        )
        yield from self._chooser.valued(("http-request set-var-fmt(txn.rate)",), buckets, "rates")
        asked = "{ var(txn.bucket) -m found }"
        yield line("", "http-request lua.take_token if", asked)
        yield line("", *refuse(429), "if { var(txn.spent) -m bool }")

    def _under_way(self) -> Iterator[Line]:
        """A request is counted from here to its end; one that is over is refused before it is counted, and again
        behind, should two have come at once."""
        limited = {key: (route, route.concurrency) for key, route in self._routes if route.concurrency}
        if not limited:
            return
        yield from self._keyed("txn.place", {key: (route, found.key) for key, (route, found) in limited.items()})
        yield from self._numbers("txn.places", {key: found.max for key, (_, found) in limited.items()}, "places")
        asked = "{ var(txn.place) -m found }"
        full = f"{{ var(txn.place),sha1,table_conn_cur({TABLE}),sub(txn.places) ge 0 }}"
        yield line("", *refuse(429), "if", asked, full)
        yield line("", f"http-request track-sc0 var(txn.place),sha1 table {TABLE} if", asked)
        yield line("", *refuse(429), "if", asked, f"{{ sc0_conn_cur({TABLE}),sub(txn.places) gt 0 }}")

    def _bodies(self) -> Iterator[Line]:
        sizes = {key: route.max_body for key, route in self._routes if route.max_body is not None}
        if not sizes:
            return
        yield from self._numbers("txn.max_body", sizes, "bodies")
        told = "{ req.fhdr(content-length),sub(txn.max_body) gt 0 }"
        yield line("", *refuse(413), "if { var(txn.max_body) -m found } { req.fhdr_cnt(content-length) gt 0 }", told)

    def _keyed(self, variable: str, keys: Mapping[str, tuple[Route, Key]]) -> Iterator[Line]:
        """Statements that put what a route counts by into `variable`; nothing for a request without the header."""
        for number, (key, found) in enumerate(_grouped((k, key) for k, (_, key) in keys.items()), 1):
            names = {each: keys[each][0].name for each in found}
            purpose = f"{variable.partition('.')[2]}.{number}"
            more: tuple[str | Literal, ...] = ()
            match key.kind:
                case KeyKind.CLIENT_IP:
                    suffix: str | Sample = Sample(self.client)
                case KeyKind.HEADER:
                    suffix = Sample(f"req.fhdr({argument(key.name)})")
                    more = ("{", Literal(f"req.fhdr_cnt({argument(key.name)})"), "gt 0 }")
                case _:
                    suffix = ""
            yield from self._chooser.valued(
                (f"http-request set-var-fmt({variable})",), names, purpose, *more, suffix=suffix
            )

    def _numbers(self, variable: str, values: Mapping[str, int], purpose: str) -> Iterator[Line]:
        """Statements that put a number by route into `variable`."""
        mapped = self._maps.file(f"{purpose}.map", f"route -> {variable}") if len(values) > 1 else None
        if mapped is None:
            ((key, value),) = values.items()
            yield self._chooser.only((f"http-request set-var({variable}) int({value})",), [key], purpose)
            return
        for key, value in values.items():
            mapped.add(key, str(value), self._chooser.origins.get(key, ""))
        yield line("", f"http-request set-var({variable}) var(txn.route),map_str_int({mapped.name})")


def _grouped(pairs: Iterable[tuple[str, _T | None]]) -> list[tuple[_T, list[str]]]:
    """Equal values once, each with all its keys."""
    found: dict[_T, list[str]] = {}
    for key, value in pairs:
        if value is not None:
            found.setdefault(value, []).append(key)
    return list(found.items())

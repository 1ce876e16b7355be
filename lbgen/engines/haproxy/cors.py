"""CORS: statements that answer preflight requests, and that grant responses to the origins of a route's policy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lbgen.engines.haproxy.statements import Acl, Statement, acl, acl_named, batches, is_set, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener
from lbgen.engines.text import Literal
from lbgen.plan.policy import Cors, Origin
from lbgen.plan.precedence import group

_GRANTED = "txn.origin"  # the origin that the request's policy admits
_ORIGIN = "req.fhdr(origin)"
_PREFLIGHT = "txn.preflight"
_IS_PREFLIGHT = is_set(_PREFLIGHT)


def _policies(on: HttpListener) -> dict[Cors, list[str]]:
    """Each policy with the keys of its routes."""
    return group((route.cors, key) for key, route in on.routes if route.cors is not None)


def _grants(on: HttpListener) -> Iterator[Statement]:
    """Store the origin where the policy admits it, before the request may be refused: scripts may read that as well."""
    each, per_route = _policies(on), on.per_route
    if each:
        asks = (acl("method OPTIONS"), acl(f"{_ORIGIN} -m found"))
        yield set_var(_PREFLIGHT, "req.fhdr(access-control-request-method)", asks)
    for number, (policy, keys) in enumerate(each.items(), 1):
        name = f"cors.{number}"
        value = "str(*)" if _is_for_all(policy) else _ORIGIN
        conditions = list(_admitted(policy.origins))
        for alternative in conditions if len(conditions) > 1 else ():
            yield statement("acl", name, *alternative.words)
        admitted = acl_named(name) if len(conditions) > 1 else conditions[0]
        yield per_route.restrict(set_var(_GRANTED, value, [admitted]), keys, name)


def _admission(on: HttpListener) -> Iterator[Statement]:
    """Answer preflight requests. An origin that the policy does not admit gets an answer without permission."""
    each, per_route = _policies(on), on.per_route
    for number, (policy, keys) in enumerate(each.items(), 1):
        name = f"cors.{number}"
        headers = [("Access-Control-Allow-Methods", ", ".join(policy.methods))]
        if policy.headers:
            headers.append(("Access-Control-Allow-Headers", ", ".join(policy.headers)))
        if policy.max_age is not None:
            headers.append(("Access-Control-Max-Age", str(policy.max_age)))
        answer = "http-request return status 204"
        words = [word for header, text in headers for word in (f"hdr {header}", Literal(text))]
        yield per_route.restrict(statement(answer, *words, when=[_IS_PREFLIGHT, is_set(_GRANTED)]), keys, name)
        yield per_route.restrict(statement(answer, when=[_IS_PREFLIGHT]), keys, name)


def _edits(on: HttpListener) -> Iterator[Statement]:
    """Replace the CORS headers of an endpoint by those of the route's policy."""
    each, per_route = _policies(on), on.per_response
    if not each:
        return
    rules, granted = "http-after-response", is_set(_GRANTED)
    every = [key for keys in each.values() for key in keys]
    yield per_route.restrict(statement("http-response del-header access-control- -m beg"), every, "cors.own")
    yield statement(f"{rules} set-header Access-Control-Allow-Origin %[var({_GRANTED})]", when=[granted])
    if some := [key for policy, keys in each.items() if policy.credentials for key in keys]:
        allow = statement(f"{rules} set-header Access-Control-Allow-Credentials true", when=[granted])
        yield per_route.restrict(allow, some, "cors.credentials")
    if some := [key for policy, keys in each.items() if not _is_for_all(policy) for key in keys]:
        yield per_route.restrict(statement(f"{rules} add-header Vary Origin"), some, "cors.vary")
    exposed = {key: ", ".join(p.expose_headers) for p, keys in each.items() if p.expose_headers for key in keys}
    expose = statement(f"{rules} set-header Access-Control-Expose-Headers", when=[granted, ~_IS_PREFLIGHT])
    yield from per_route.with_values(expose, exposed, "cors.expose")


def _is_for_all(policy: Cors) -> bool:
    return any(origin.any for origin in policy.origins) and not policy.credentials


def _admitted(origins: Sequence[Origin]) -> Iterator[Acl]:
    """ACLs of which one holds for an origin that is admitted."""
    if any(origin.any for origin in origins):
        yield acl(f"{_ORIGIN} -m found")
        return
    for some in batches([origin.text for origin in origins if origin.is_exact]):
        yield acl(f"{_ORIGIN} -m str --", *map(Literal, some))
    for origin in origins:
        if not origin.is_exact:
            yield acl(f"{_ORIGIN} -m reg --", Literal(f"^{origin.pattern(re.escape)}$"))


CORS_GRANTS = Contributor(admission=_grants)
CORS = Contributor(admission=_admission, edits=_edits)

"""What the agent loads into the kernel: exact shares, backups, and hashes whose other clients stay."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.engines.agent_spec import FILE as ORDER
from lbgen.engines.nftables import ENGINE
from lbgen.engines.nftables.health_checks import FILE
from lbgen.engines.nftables.upstreams import MAX_SLOTS, Part, allocate, bounded, hash_shares, spans
from lbgen.plan.model import Balance
from lbgen.plan.policy import ActiveHealth
from tests.engines.test_nftables import plan, pool
from tests.support import plans

HOST = "10.0.0.1"
CHECKS = ActiveHealth(interval=200, timeout=100, fall=2, rise=2, path=None, port=None, statuses=((200, 399),))


def part(*weights: int, percents: dict[int, int] | None = None, weight: int = 1, backups: int = 0) -> Part:
    """Endpoints 10.0.0.1:1, :2 and so on, the last ones backups; `percents` by port."""
    ends = [plans.endpoint(HOST, number, each) for number, each in enumerate(weights, 1)]
    spare = len(ends) - backups
    ends = [replace(each, backup=at >= spare) for at, each in enumerate(ends)]
    return Part(weight, tuple(ends), {f"{HOST}:{port}": percent for port, percent in (percents or {}).items()})


def ports(parts: tuple[Part, ...]) -> dict[int | None, int]:
    found: Counter[int | None] = Counter()
    for share in allocate(parts):
        found[share.endpoint.port if share.endpoint else None] += share.slots
    return dict(found)


@pytest.mark.parametrize(
    ("parts", "slots"),
    [
        ((part(3, 1),), {1: 3, 2: 1}),
        ((part(3, 1, 1, percents={1: 0}),), {2: 1, 3: 1}),
        ((part(1, 1, percents={1: 10}),), {1: 1, 2: 10}),
        ((part(1, 1, 1, backups=1),), {1: 1, 2: 1}),
        ((part(1, 1, 1, backups=1, percents={1: 0, 2: 0}),), {3: 1}),
        ((part(1, 1, percents={1: 0, 2: 0}),), {None: 1}),
        ((part(1, percents={1: 0}, weight=3), part(2, weight=1)), {None: 3, 1: 1}),
        ((part(0, 0),), {}),
    ],
)
def test_shares_follow_what_is_up(parts, slots):
    assert ports(parts) == slots


def test_shares_of_odd_percentages_stay_in_bounds():
    parts = tuple(part(997, 991, percents={1: 10 * at}, weight=983 - at) for at in (1, 3, 7))
    every = allocate(parts)
    assert sum(each.slots for each in every) > MAX_SLOTS
    assert sum(each.slots for each in bounded(every)) <= MAX_SLOTS + len(every)


def owners(parts: tuple[Part, ...]) -> dict[int, int]:
    """The port of each slot."""
    found = spans(hash_shares(parts), interleaved=False)
    return {slot: x.endpoint.port for x in found for slot in range(x.first, x.last + 1)}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_a_hash_moves_only_the_clients_of_what_is_down(weights, data):
    down = data.draw(st.sets(st.sampled_from(range(1, len(weights) + 1))))
    before = owners((part(*weights),))
    after = owners((part(*weights, percents=dict.fromkeys(down, 0)),))
    assert not down & set(after.values())
    if any(weight and port not in down for port, weight in enumerate(weights, 1)):
        assert after.keys() == before.keys()
    else:
        assert after == {}
    assert all(after[slot] == port for slot, port in before.items() if port not in down)


def checked(*weights: int, balance: Balance = Balance.ROUND_ROBIN):
    return plan(replace(pool(HOST, weights, balance), active=CHECKS))


def test_the_files_of_a_checked_pool():
    files = {each.name: each.text for each in ENGINE.render(checked(1, 1), "1.0")}
    assert set(files) == {"lbgen.nft", FILE, ORDER}
    assert f'include "./{FILE}"' in files["lbgen.nft"]
    order = json.loads(files[ORDER])
    assert order["command"] == ["nft", "-f", FILE]
    assert order["reload"] == ""
    assert ENGINE.set_weights(order["steering"], {}) == {FILE: files[FILE]}
    first = order["pools"][0]["targets"][0]["name"]
    text = ENGINE.set_weights(order["steering"], {"pg": {first: 0}})[FILE]
    assert f"{HOST} . {first.rpartition(':')[2]}" not in text
    assert "mod 1 map" in text
    nothing = ENGINE.set_weights(order["steering"], {"pg": {x["name"]: 0 for x in order["pools"][0]["targets"]}})[FILE]
    assert "dnat" not in nothing
    assert nothing.rstrip().endswith("reject with tcp reset")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "\t", "}"))]
    assert all(" ip lb_shop lb_" in line for line in lines), "it touches nothing but its own table"


def test_backups_and_slow_start_need_checks():
    plain = pool(HOST, (1, 1))
    spare = replace(plain, slow_start=1000, endpoints=(plain.endpoints[0], replace(plain.endpoints[1], backup=True)))
    found = [each.field for each in ENGINE.objections(plan(spare), "1.0")]
    assert found == [f"{spare.endpoints[1].field}.backup", f"{spare.field}.slow_start"]
    assert not list(ENGINE.objections(plan(replace(spare, active=CHECKS)), "1.0"))

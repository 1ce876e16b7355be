"""`lbgen preview` of local stacks, compared with what `up` and `reload` then do, over kinds of change."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import lbgen
from lbgen.runtime.common import state
from lbgen.runtime.common.driver import Action, PartKind
from lbgen.runtime.local import stack_processes
from lbgen.runtime.local.stand_ins import StandIns
from tests.support.changes import CHANGES, Part, agrees, base, changed, refusals, walk
from tests.support.engine_lists import need_binary
from tests.support.sample import sample

if TYPE_CHECKING:
    from lbgen.api import Stack
    from tests.support.changes import Parts

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_800
ENGINES = ("haproxy", "nginx", "envoy", "traefik")
SAMPLE = {
    "haproxy": ("nothing", "listener.port", "pool.endpoint.new", "route.respond"),
    "nginx": ("pool.health.active",),
    "envoy": ("route.timeouts", "listener.l4.gone"),
}


def parts(stack: Stack) -> Parts:
    """What runs of a local stack."""
    record = state.read(stack.name)
    assert record is not None
    found: Parts = {}
    stand_ins = StandIns.adopt(state.folder(stack.name)).process
    if stand_ins is not None:
        saved = stack_processes.read_saved(state.folder(stack.name))
        assert saved is not None
        found[PartKind.STAND_INS, ""] = Part(str(stand_ins.pid), str(saved.stand_in_set.stand_ins))
    for each in record.engines:
        found[PartKind.ENGINE, each.name] = Part(f"{each.pid} {each.started}", str(record.changes))
        if each.agent:
            found[PartKind.AGENT, each.name] = Part(str(each.agent), "")
    return found


def need(*names: str) -> None:
    for name in names:
        need_binary(name)


@pytest.mark.parametrize("name", sample(ENGINES, SAMPLE))
def test_up_does_what_the_preview_says(name: str, every: bool) -> None:
    kinds = tuple(CHANGES) if every else SAMPLE[name]
    need(name)
    topology = base("preview", PORT)
    with lbgen.up(lbgen.load(topology), engine=name, runtime="local", accept=("all",)):
        taken, served = walk(topology, kinds, name, "local", PORT, parts)
    assert served >= 0.7 * len(kinds)
    assert taken & {Action.RELOAD, Action.REPLACE}


def test_nothing_runs_yet() -> None:
    need("haproxy")
    found = lbgen.preview(lbgen.load(base("preview", PORT)), engine="haproxy", runtime="local")
    assert {part.action for part in found.parts} == {Action.CREATE}
    assert (found.changes, found.interrupts, found.compared) == (True, False, None)
    assert lbgen.api.ps() == ()


def test_reload_and_its_preview_refuse_alike_and_do_the_same() -> None:
    need("haproxy")
    topology = base("preview", PORT)
    with lbgen.up(lbgen.load(topology), engine="haproxy", runtime="local", accept=("all",)) as stack:
        for kind in ("route.respond", "pool.endpoint.new"):
            after = changed(topology, kind)
            before = parts(stack)
            found = lbgen.preview(after, by_reload=True)
            assert parts(stack) == before
            two = parts(lbgen.reload(after))
            for part in found.parts:
                key = part.kind, part.name
                assert agrees(part.action, before.get(key), two.get(key)), (kind, part)
        other = lbgen.load({**topology, "engines": {"haproxy": {"version": "2.6"}}})
        said = [
            refusals(lambda act=act: act(other)) for act in (lambda x: lbgen.preview(x, by_reload=True), lbgen.reload)
        ]
        assert said[0] == said[1] != []
        assert lbgen.preview(other, engine="haproxy", runtime="local", accept=("all",)).interrupts


def test_other_engines_are_created_and_removed_after_a_stop() -> None:
    need("haproxy", "nginx")
    topology = lbgen.load(base("preview", PORT))
    with lbgen.up(topology, engine="haproxy", runtime="local", accept=("all",)) as stack:
        before = parts(stack)
        found = lbgen.preview(topology, engine="nginx", runtime="local", accept=("all",))
        two = parts(lbgen.up(topology, engine="nginx", runtime="local", accept=("all",)))
        actions = {(part.kind, part.name): part.action for part in found.parts}
        assert set(actions) == {*before, *two}
        assert all(agrees(action, before.get(key), two.get(key)) for key, action in actions.items()), actions
        assert actions[PartKind.ENGINE, "haproxy"] is Action.REMOVE


def test_a_stack_without_its_supervisor_is_not_taken_over_by_a_look() -> None:
    need("haproxy")
    topology = base("preview", PORT)
    with lbgen.up(lbgen.load(topology), engine="haproxy", runtime="local", accept=("all",)) as stack:
        record = state.read(stack.name)
        assert record is not None
        record.supervisor.send(signal.SIGKILL)
        while record.supervisor.alive():
            os.waitpid(record.pid, os.WNOHANG)
            time.sleep(0.01)
        before = parts(stack)
        same = lbgen.preview(lbgen.load(topology), engine="haproxy", runtime="local", accept=("all",))
        found = lbgen.preview(changed(topology, "route.respond"), engine="haproxy", runtime="local", accept=("all",))
        again = state.read(stack.name)
        assert again is not None
        assert (parts(stack), again.supervisor.alive()) == (before, False)
        assert not same.changes
        two = lbgen.up(changed(topology, "route.respond"), engine="haproxy", runtime="local", accept=("all",))
        [engine_change] = [part for part in found.parts if part.kind is PartKind.ENGINE]
        assert engine_change.action is Action.RELOAD
        assert parts(two)[PartKind.ENGINE, "haproxy"].id == before[PartKind.ENGINE, "haproxy"].id


def test_tiers_replica_by_replica() -> None:
    need("haproxy", "nginx")
    shop = Path(__file__).parents[2] / "examples/hybrid-edge/topology.yaml"
    text = shop.read_text().replace("8080", str(PORT)).replace("8081", str(PORT + 1))
    topology = lbgen.load(yaml.safe_load(text))
    fresh = lbgen.preview(topology, runtime="local", replicas={"web": 2})
    assert {part.name for part in fresh.parts if part.kind is PartKind.ENGINE} == {"edge-1", "web-1", "web-2"}
    with lbgen.up(topology, runtime="local", replicas={"web": 2}) as stack:
        assert not lbgen.preview(topology, runtime="local", replicas={"web": 2}).changes
        pids = {each.name: each.pid for each in stack.engines}
        more = lbgen.preview(topology, runtime="local", replicas={"web": 3})
        actions = {part.name: part.action for part in more.parts if part.kind is PartKind.ENGINE}
        assert actions == {
            "edge-1": Action.RELOAD,
            "web-1": Action.NONE,
            "web-2": Action.NONE,
            "web-3": Action.CREATE,
        }
        assert more.compared is not None
        assert "tiers.web.replicas" in {each.field for each in more.compared.fields}
        grown = lbgen.up(topology, runtime="local", replicas={"web": 3})
        assert {each.name: each.pid for each in grown.engines if each.name in pids} == pids
        less = lbgen.preview(topology, runtime="local", replicas={"web": 1})
        gone = {part.name for part in less.parts if part.action is Action.REMOVE}
        assert gone == {"web-2", "web-3"}

"""What `up` or `reload` would do to a local stack, by the same decisions; nothing that runs is touched."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from lbgen.diagnostics import EngineError
from lbgen.engines.api import Engine
from lbgen.plan.model import Plan
from lbgen.runtime.common import state
from lbgen.runtime.common.driver import (
    Action,
    Decision,
    PartChange,
    PartKind,
    ReloadOptions,
    UpOptions,
    agent_action,
    reads_by_itself,
)
from lbgen.runtime.common.reload import refusal
from lbgen.runtime.common.state import StackState, lock
from lbgen.runtime.local import stack_processes
from lbgen.runtime.local.decide import (
    SavedEngine,
    accept_request,
    assign_stand_ins,
    changed_files,
    claim_new_ports,
    engine_reload,
    is_serving,
    is_up_to_date,
    needs_supervisor,
    plan_for,
    reload_request,
    request_for,
    saved_engine,
    with_certificates,
)
from lbgen.runtime.local.messages import EngineChoice, ReloadRequest
from lbgen.runtime.local.stack_processes import SavedStack
from lbgen.runtime.standins.plan import stand_in_pools


def preview_up(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Decision:
    """What `stack.up` would do. Raises as it does while it decides: LbgenError (verdicts), EngineError LB402, LB404,
    LB407."""
    wanted, skipped = request_for(plan, engines, options)
    plan, chosen = wanted.plan, wanted.engines
    before = state.read(plan.name)
    saved = stack_processes.read_saved(state.folder(plan.name)) if before is not None else None
    ran = None if saved is None else saved.request.plan
    if before is None:
        return Decision(_new_parts(plan, chosen), None, plan, skipped)
    taken_over = needs_supervisor(before) and saved is not None
    digest = wanted.digest
    if is_up_to_date(before, digest) or (taken_over and before.digest == digest):
        return Decision(_same_parts(before), ran, plan, skipped)
    why = f"{before.name} does not run whole"
    if saved is not None and (is_serving(before) or taken_over):
        try:
            return Decision(_reloaded_parts(before, saved, reload_request(wanted)), ran, plan, skipped)
        except EngineError as error:
            if any(each.code != "LB412" for each in error.diagnostics):
                raise
            why = "; ".join(each.message for each in error.diagnostics)
    elif saved is None:
        why = "another lbgen started it"
    return Decision(_restarted_parts(before, saved, plan, chosen, why), ran, plan, skipped)


def preview_reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Decision:
    """What `stack.reload` would do. Raises as it does while it decides: LbgenError (verdicts), EngineError LB404,
    LB412."""
    before, saved = state.read(stack.name), stack_processes.read_saved(state.folder(stack.name))
    if before is None or saved is None:
        raise EngineError(refusal(f"{stack.name} was started by another lbgen, whose notes cannot be read"))
    if not (is_serving(before) or needs_supervisor(before)):
        raise EngineError(refusal(f"{stack.name} does not run any more"))
    asked = ReloadRequest(with_certificates(plan), options.accept, options.seconds)
    return Decision(_reloaded_parts(before, saved, asked), saved.request.plan, accept_request(saved.request, asked)[0])


def _reloaded_parts(before: StackState, saved: SavedStack, asked: ReloadRequest) -> tuple[PartChange, ...]:
    """What a reload does to each part. Raises LbgenError (verdicts), EngineError LB404, LB412."""
    plan, chosen, accept = accept_request(saved.request, asked)
    served = _served(before, saved)
    hosts = {name: each.host for name, each in saved.networks}
    there = saved.stand_in_set
    parts: list[PartChange] = []
    with tempfile.TemporaryDirectory() as place:
        stand_ins = assign_stand_ins(plan, saved.request.engines, tuple(hosts.values()), there, Path(place))
        new = set(stand_ins.stand_ins) - set(there.stand_ins)
        if new or there.stand_ins:
            action = Action.NONE if not new else Action.RELOAD if there.stand_ins else Action.CREATE
            parts.append(PartChange(PartKind.STAND_INS, "", action, f"{len(new)} more" if new else ""))
        for each in chosen:
            now = served[each.name]
            own = plan_for(plan, each, stand_ins, hosts.get(each.name))
            made = engine_reload(now, each.engine, own, accept)
            if each.name not in hosts:
                with lock("ports"):
                    claim_new_ports(now, made.plan)
            action, why = Action.RELOAD, ""
            if made.spec.hot_restart_argv and not reads_by_itself(
                now.spec, changed_files(now.directory, made.rendered)
            ):
                action, why = Action.REPLACE, "a new process takes over its sockets"
            parts.append(PartChange(PartKind.ENGINE, each.name, action, why))
            parts += _agent(each.name, agent_action(now.spec.agent, made.spec.agent, Action.REPLACE))
    return tuple(parts)


def _served(before: StackState, saved: SavedStack) -> dict[str, SavedEngine]:
    hosts, binaries = {name: each.host for name, each in saved.networks}, dict(saved.binaries)
    entries = {each.name: each for each in before.engines}
    return {
        x.name: saved_engine(
            saved.request.plan, x, saved.stand_in_set, hosts.get(x.name), entries[x.name], binaries[x.name]
        )
        for x in saved.request.engines
    }


def _new_parts(plan: Plan, chosen: Sequence[EngineChoice]) -> tuple[PartChange, ...]:
    parts = [PartChange(PartKind.STAND_INS, "", Action.CREATE)] if stand_in_pools(plan) else []
    for each in chosen:
        parts.append(PartChange(PartKind.ENGINE, each.name, Action.CREATE))
        parts += _agent(each.name, agent_action(False, _needs_agent(plan, each), Action.CREATE))
    return tuple(parts)


def _needs_agent(plan: Plan, chosen: EngineChoice) -> bool:
    return chosen.engine.process(plan, chosen.binary, Path("/")).agent


def _same_parts(before: StackState) -> tuple[PartChange, ...]:
    parts = [PartChange(PartKind.STAND_INS, "", Action.NONE)] if before.endpoints else []
    for each in before.engines:
        parts.append(PartChange(PartKind.ENGINE, each.name, Action.NONE))
        parts += _agent(each.name, agent_action(bool(each.agent), bool(each.agent), Action.NONE))
    return tuple(parts)


def _restarted_parts(
    before: StackState, saved: SavedStack | None, plan: Plan, chosen: Sequence[EngineChoice], why: str
) -> tuple[PartChange, ...]:
    """What a new start of the whole stack does: what runs ends first."""
    had = saved.stand_in_set.stand_ins if saved is not None else before.endpoints
    parts: list[PartChange] = []
    if had or stand_in_pools(plan):
        after = bool(stand_in_pools(plan))
        action = Action.REMOVE if not after else Action.INTERRUPT if had else Action.CREATE
        parts.append(PartChange(PartKind.STAND_INS, "", action))
    ran = {each.name: each for each in before.engines}
    for each in chosen:
        now = ran.get(each.name)
        action = Action.INTERRUPT if now is not None and now.running else Action.CREATE
        parts.append(PartChange(PartKind.ENGINE, each.name, action, why if action is Action.INTERRUPT else ""))
        had_agent = now is not None and bool(now.agent)
        parts += _agent(each.name, agent_action(had_agent, _needs_agent(plan, each), Action.INTERRUPT))
    stay = {each.name for each in chosen}
    for name in (each for each in ran if each not in stay):
        parts.append(PartChange(PartKind.ENGINE, name, Action.REMOVE))
        parts += _agent(name, agent_action(bool(ran[name].agent), False, Action.REMOVE))
    return tuple(parts)


def _agent(engine: str, action: Action | None) -> list[PartChange]:
    return [] if action is None else [PartChange(PartKind.AGENT, engine, action)]

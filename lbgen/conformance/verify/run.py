"""`lbgen.verify`: run a topology on all engines at once and compare them with the oracle and each other."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.verify import edited_files, faults
from lbgen.conformance.verify.addresses import LOOPBACK, move_to_loopback, why_moved
from lbgen.conformance.verify.cases import ScheduledCase
from lbgen.conformance.verify.coverage import fields_not_tried
from lbgen.conformance.verify.deployed import verify_deployed
from lbgen.conformance.verify.edited_files import has_same_shape, render_for
from lbgen.conformance.verify.jobs import Failed, Finished, Job, JobProgress, run_all
from lbgen.conformance.verify.report import Report, UnverifiedEngine, VerifiedEngine, compare_engines
from lbgen.conformance.verify.requests import request_cases
from lbgen.conformance.verify.substitute_certificates import CertifiedPlan, certify
from lbgen.conformance.verify.tiers import merge_reports, verify_through_front
from lbgen.conformance.verify.time_scaling import choose_scale, scale_times
from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Engine, RenderedFile, engine_of, local_engines
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import MANIFEST, Rendered
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_version
from lbgen.plan.resolve import plan as resolve
from lbgen.plan.tier_links import placeholder_addresses
from lbgen.plan.tiers import tiers
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.local import network
from lbgen.runtime.local.decide import choose
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.stack_request import chosen_engines

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

REQUESTS = 1_000
CLIENT = "198.51.100.7"  # of TEST-NET-2 (RFC 5737); in a network of our own it may be any


class _Options(Struct, frozen=True):
    """As the arguments of `verify`."""

    accept: tuple[str, ...]
    requests: int
    most_faults: int | None
    seed: int
    progress: Callable[[JobProgress], None]
    versions: Mapping[str, Sequence[str]]


def verify(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    accept: tuple[str, ...] = (),
    requests: int = REQUESTS,
    most_faults: int | None = None,
    seed: int = 1,
    rendered: str | os.PathLike[str] | None = None,
    versions: Mapping[str, Sequence[str]] | None = None,
    against: Mapping[str, str] | None = None,
    client: str = "",
    progress: Callable[[JobProgress], None] = no_progress,
) -> Report:
    """Run the requests and faults of `topology` on `engines` (default: all that can) and compare with the oracle.

    As root each engine runs in a network of its own, with the listeners and endpoints at the topology's own addresses;
    else, or where stand-ins cannot have those addresses (loopback, names, one address in two pools), on loopback and
    other ports; the report says why. Times too long to wait for are
    divided by a factor that the report states.
    `requests` is how many a run may ask each engine, and `most_faults` how many faults it may try (default: all);
    `seed` draws them when there are more. `rendered`: a folder as `lbgen render -o` writes it, whose files are served
    as they stand (but for those times); that needs root. `versions`: by engine those to verify side by side, beside the
    one that serves the topology when there is only one; with it `engines` is by default those engines alone.
    `against`: URLs by listener ("" = the only one that reads requests) of what the one engine of `engines` serves
    elsewhere, to which this host is `client`; nothing is started, and what a client cannot see there is not tried (see
    `verify_deployed`).

    Raises LbgenError (findings, verdicts), UsageError LB305, LB411 (no such folder) and LB437, EngineError LB402,
    LB407, LB436 and LB437.
    """
    if against:
        return _against(topology, engines, against, client, requests, seed, progress)
    options = _Options(accept, requests, most_faults, seed, progress, versions or {})
    engines = list(versions) if engines is None and versions else engines
    folder = None if rendered is None else Path(rendered)
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None:
            return _tiers(topology, engines, folder, options)
        topology = resolve(topology)
    with certify(topology, users=folder is None) as given:
        return _verified(given, engines, folder, options)


def _against(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None,
    urls: Mapping[str, str],
    client: str,
    requests: int,
    seed: int,
    progress: Callable[[JobProgress], None],
) -> Report:
    """What is deployed elsewhere. UsageError LB437 unless one engine is named, and the topology is one tier."""
    if engines is None or len(engines) != 1:
        message, hint = "what is deployed is of one engine, whose verdicts say what may differ", "name it: -e aws"
        raise UsageError(Diagnostic("LB437", message, hint=hint))
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None:
            hint = "verify a topology of one tier"
            raise UsageError(Diagnostic("LB437", "clients see one tier of what is deployed", hint=hint))
        topology = resolve(topology)
    target = engine_by_name(engines[0]) if isinstance(engines[0], str) else engines[0]
    with certify(topology, users=False) as given:
        return verify_deployed(given.plan, target, urls, client=client, requests=requests, seed=seed, progress=progress)


def _tiers(
    topology: Topology, engines: Sequence[str | Engine] | None, folder: Path | None, options: _Options
) -> Report:
    """Each tier by itself, and what is behind through what is in front. `engines` are for tiers that name none."""
    reports = []
    targets: dict[str, list[Engine]] = {}
    for tier in tiers(topology, None, placeholder_addresses(topology, {})):
        named = engine_of(tier)
        asked_for = [named] if named is not None else engines
        place = None if folder is None else folder / tier.name
        with certify(tier.plan, users=folder is None) as given:
            reports.append((tier.name, _verified(given, asked_for, place, options)))
        names = local_engines() if asked_for is None else [x if isinstance(x, str) else x.name for x in asked_for]
        targets[tier.name] = [engine_by_name(name) for name in names]
    if folder is None:
        reports += verify_through_front(
            topology, targets, (options.requests, options.seed), options.accept, options.progress
        )
    return merge_reports(topology.name, reports)


def _verified(
    given: CertifiedPlan, engines: Sequence[str | Engine] | None, folder: Path | None, options: _Options
) -> Report:
    begun = time.monotonic()
    real = given.plan
    lacking = network.why_unavailable()
    obstacle = lacking or why_moved(real)
    if folder is not None and obstacle:
        message = f"files as they stand need a network that has the topology's own addresses: {obstacle}"
        raise EngineError(Diagnostic("LB407", message, hint="run as root" if lacking else ""))
    chosen, skipped = _chosen(real, engines, options, folder)
    scale = choose_scale(real, lambda shorter: all(has_same_shape(each, real, shorter) for each in chosen))
    plan = scale_times(real, scale)
    client = LOOPBACK if obstacle else CLIENT
    wanted = request_cases(plan, client, most=options.requests, seed=options.seed)
    faulty = _some(faults.fault_cases(plan, client), options.most_faults, options.seed)
    cases = (*(ScheduledCase(case) for case in wanted), *faulty)
    prepared = [_prepared(given, plan, each, cases, folder, isolated=not obstacle) for each in chosen]
    names = Counter(each.name for each in chosen)
    jobs = [
        replace(job, label=f"{job.engine} {job.binary.version}") if names[job.engine] > 1 else job
        for job, _ in prepared
    ]
    ended = run_all(jobs if not obstacle else move_to_loopback(jobs), options.progress)
    done = [each for each in ended if isinstance(each, Finished)]
    broken = [
        UnverifiedEngine(each.engine, each.diagnostics, broken=True) for each in ended if isinstance(each, Failed)
    ]
    results = tuple(result for each in done for result in each.results)
    return Report(
        name=real.name,
        results=(*results, *compare_engines(done, wanted)),
        left=(*(UnverifiedEngine(name, reasons) for name, reasons in skipped), *broken),
        served=tuple(served for _, served in prepared),
        scale=scale,
        moved_because=obstacle,
        seconds=time.monotonic() - begun,
        untried=fields_not_tried(plan, (one.case for one in cases), results),
    )


def _some(every: tuple[ScheduledCase, ...], most: int | None, seed: int) -> tuple[ScheduledCase, ...]:
    if most is None or len(every) <= most:
        return every
    drawn = random.Random(seed).sample(range(len(every)), most)  # noqa: S311  # no secret
    return tuple(every[at] for at in sorted(drawn))


def _chosen(
    plan: Plan, engines: Sequence[str | Engine] | None, options: _Options, folder: Path | None
) -> tuple[tuple[EngineChoice, ...], tuple[tuple[str, tuple[Diagnostic, ...]], ...]]:
    """The engines to verify, and those left out with the reasons."""
    targets = chosen_engines(engines)
    if engines is None and folder is not None:
        targets = [x for x in targets if (folder / x.name).is_dir()]
    missing = [x.name for x in targets if folder is not None and not (folder / x.name).is_dir()]
    if missing or not targets:
        where = folder / missing[0] if folder is not None and missing else folder
        hint = f"lbgen render TOPOLOGY -o {folder} writes them"
        raise UsageError(Diagnostic("LB411", f"there are no rendered files in {where}", hint=hint))
    if not options.versions:
        return choose(plan, targets, insist=engines is not None, accept=options.accept)
    found: list[EngineChoice] = []
    for target in targets:
        asked = list(options.versions.get(target.name, ()))
        for version in asked if len(asked) > 1 else [plan.options(target.name).version, *asked]:
            at = plan if version is None else with_version(plan, target.name, version)
            found += choose(at, [target], insist=True, accept=options.accept)[0]
    return tuple(found), ()


def _prepared(
    given: CertifiedPlan,
    plan: Plan,
    chosen: EngineChoice,
    cases: tuple[ScheduledCase, ...],
    folder: Path | None,
    *,
    isolated: bool,
) -> tuple[Job, VerifiedEngine]:
    """What one engine's process gets, and in what its files are not the topology's own."""
    real = given.plan
    plan = with_version(replace(plan, resolvers=chosen.resolvers), chosen.name, chosen.version)
    ours, copy = render_for(chosen, real), render_for(chosen, plan)
    mine = ours if folder is None else _read(folder / chosen.name, ours, given)
    try:
        changed = edited_files.line_changes(ours, copy)
        files = edited_files.with_verified_times(mine, ours, copy)
    except ValueError as error:  # then it is not the times alone that would differ, and nothing may be claimed
        message = f"its files with shorter times are other files: {error}"
        raise EngineError(Diagnostic("LB403", message)) from error
    served = files if isolated else None
    certificates = str(given.folder)
    job = Job(chosen.name, chosen.version, chosen.binary, plan, cases, served, isolated, certificates)
    return job, VerifiedEngine(chosen.name, chosen.binary.version, changed, edited_files.user_edits(mine, ours))


def _read(folder: Path, like: Rendered, given: CertifiedPlan) -> Rendered:
    """The files of a folder as they stand, but for authorities; what the topology's own files are is read there too."""
    instead = dict(given.replacements)
    absolute = {old: str(new) for old, new in given.replacements if old.startswith("/")}
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            name = path.relative_to(folder).as_posix()
            text = instead.get(name, path).read_text(encoding="utf-8")
            for old, new in absolute.items():
                text = text.replace(old, new)
            files.append(RenderedFile(name, text))
    return Rendered(like.engine, like.version, tuple(files), like.verdicts)

"""`python -m lbgen.conformance.safety -e nginx@1.22`: judge engines, and print each breach."""

from __future__ import annotations

import argparse
import sys

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.safety.run import guarded_plan, judge_safety
from lbgen.engines.api import Level, engine


def main() -> int:
    """Exit 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m lbgen.conformance.safety")
    parser.add_argument("-e", "--engine", action="append", default=[], help="nginx, or nginx@1.22")
    parser.add_argument("--profile", default="", help="the topology's profile")
    given = parser.parse_args()
    broken = 0
    for subject in engines_on_host(given.engine):
        if subject.binary is None:
            continue
        if engine(subject.engine).verdict("listener.l7", subject.version).level is Level.REFUSED:
            continue  # it reads no requests
        plan, left_out = guarded_plan(subject, given.profile)
        report = judge_safety(plan, subject)
        broken += len(report.breaches)
        for each in (*report.breaches, *report.not_tried, *left_out):
            sys.stdout.write(f"{subject.label}: {each}\n")
        sys.stdout.write(f"{subject.label}: {report.tried} attacks, {len(report.breaches)} breaches\n")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())

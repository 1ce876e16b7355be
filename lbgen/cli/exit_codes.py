"""The exit codes of lbgen; `lbgen --help` prints this table."""

from __future__ import annotations

OK = 0
FINDINGS = 1
USAGE = 2
ENGINE = 3
DIFFERS = 4
INTERNAL = 5
CHANGES = 6
INTERRUPTED = 130  # 128 and the number of the signal

MEANING = {
    OK: "fine",
    FINDINGS: "findings: the topology is wrong, or an engine refuses it",
    USAGE: "usage: unknown flag, engine or stack",
    ENGINE: "docker or an engine failed",
    DIFFERS: "differs: engines (verify), versions (fingerprint), topologies (diff), figures (bench)",
    INTERNAL: "internal error, a bug in lbgen (LBGEN_DEBUG=1 shows the traceback)",
    CHANGES: "preview --exit-code: something would change",
    INTERRUPTED: "interrupted by Ctrl-C (143: by SIGTERM); up and reload roll back unfinished changes",
}

"""The entrypoint script of a container whose engine hot-restarts: each new process takes over from the one before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

NEXT_SIGNAL, COMMIT_SIGNAL = "SIGHUP", "SIGUSR1"  # start the next process; the last one serves and stays
_EPOCH = "{epoch}"
# When a process ends before it has taken over, the one before continues to serve. Any other end ends the container,
# which docker restarts.
_SCRIPT = """\
epoch=0 all= last= sure=
next() { %s & last=$!; all="$all $last"; epoch=$((epoch + 1)); }
trap next HUP
trap 'sure=$last' USR1
trap 'sure=ending; kill -TERM $all 2>/dev/null' TERM
next
while :; do
  wait "$last"; code=$?
  kill -0 "$last" 2>/dev/null && continue
  left= former=
  for pid in $all; do kill -0 "$pid" 2>/dev/null && left="$left $pid" && former=$pid; done
  [ -n "$left" ] || exit "$code"
  if [ "$sure" = "$last" ]; then kill -KILL $left 2>/dev/null; exit "$code"; fi
  all=$left last=$former epoch=$((epoch - 1))
done
"""


def script(argv: Sequence[str]) -> str:
    """A shell script that runs `argv` once per epoch, with the epoch's number in place of "{epoch}"."""
    return _SCRIPT % " ".join('"$epoch"' if word == _EPOCH else shlex.quote(word) for word in argv)

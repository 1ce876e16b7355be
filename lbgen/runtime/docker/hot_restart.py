"""An engine whose next process takes over from the one before -> the script that is its container's first process."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NEXT_SIGNAL, COMMIT_SIGNAL = "SIGHUP", "SIGUSR1"  # start the next one; it serves, so that the one before is no way back
_EPOCH = "{epoch}"
# A process that ends before it has taken over leaves the one before, which serves on. Any other end is the container's,
# which docker starts anew.
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
    """Runs `argv` for each epoch, "{epoch}" being its number."""
    return _SCRIPT % " ".join('"$epoch"' if word == _EPOCH else shlex.quote(word) for word in argv)

#!/bin/sh
# Everything that is tested: format, lint, layers, types, tests. $PYTHON has lbgen[engines,dev] installed.
# What cannot run on this machine is skipped, counted and named by pytest's summary.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
bin=$(dirname "$python")

# Debian's own nginx 1.22 and HAProxy 2.6, nftables, keepalived and namespaces are tested beside the wheels' engines.
# Small clients and servers of tests/clients; PostgreSQL, MariaDB, Chromium, Go, Java and Node are used where they are.
packages="nginx-light libnginx-mod-stream haproxy nftables keepalived iproute2 curl redis-server bind9-dnsutils"
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ] && command -v apt-get >/dev/null; then
    if [ "$(id -u)" = 0 ]; then
        echo "== system packages:$missing (installed now, because you are root; their services are not started)"
        apt-get update -qq
        # shellcheck disable=SC2086
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "== not installed:$missing; tests that need them are skipped (apt-get install$missing)"
    fi
fi

# In a fresh clone all workers begin at the same time, and each would compile all modules and tests. They are compiled
# once instead, while mypy uses another CPU; what cannot be read is for the tests to tell.
unset PYTHONDONTWRITEBYTECODE
{ "$python" -m compileall -q lbgen; "$python" -m pytest -q --collect-only -p no:cacheprovider; } >/dev/null 2>&1 &
compiling=$!

echo "== format and lint"; "$bin/ruff" format --check . ; "$bin/ruff" check .
echo "== layers"; "$bin/lint-imports" --no-cache
echo "== types"; "$bin/mypy"
echo "== tests"
wait "$compiling" || true
exec "$bin/python" tests/phases.py "$@"

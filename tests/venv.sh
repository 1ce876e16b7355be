#!/bin/sh
# Make the virtual environment $1 with $PYTHON (python3); says what is missing when that cannot be done.
set -eu
venv=$1
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "lbgen needs Python 3.11 or newer; $python is $("$python" --version 2>&1). Set PYTHON=..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing system package: python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    else
        echo "Python's venv module is missing: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2
        exit 1
    fi
fi
# A pip that is here installs the one of the environment; without one ensurepip does, which takes 6 s longer.
"$python" -m venv --without-pip "$venv"
if ! "$python" -m pip --python "$venv/bin/python" install --quiet --upgrade pip 2>/dev/null; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --upgrade pip
fi

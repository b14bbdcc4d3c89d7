#!/bin/sh
# Makes .venv from requirements.txt, by hash; does nothing when it already fits.
set -eu
cd "$(dirname "$0")/.."

stamp=.venv/.gpu-minutes-setup
wanted="$(cat requirements.txt pyproject.toml | sha256sum) $PWD"
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

find_python() {
    for candidate in python3.11 python3.12 python3.13 python3.14 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    tools/apt.sh python3 python3-venv
    python=$(find_python)
fi
if [ -z "$python" ]; then
    echo "setup: Python 3.11 or newer is missing; install it and run make again" >&2
    exit 2
fi

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    # Debian ships the venv module without what it needs.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        tools/apt.sh "python$version-venv"
    fi
    echo "setup: making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi

echo "setup: installing pinned dependencies"
.venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements.txt
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
echo "$wanted" >"$stamp"

#!/bin/sh
# Style, types and import contracts; runs all of them, so that one run shows every fault.
set -eu
cd "$(dirname "$0")/.."

failed=
check() {
    echo "check: $*"
    "$@" || failed="$failed ${1##*/}"
}
check .venv/bin/ruff check --quiet .
check .venv/bin/ruff format --check --quiet .
check .venv/bin/mypy
check .venv/bin/mypy tools
check .venv/bin/lint-imports
if command -v shellcheck >/dev/null; then
    check shellcheck tools/*.sh tests/device/*.sh .ci/run
fi
if [ -n "$failed" ]; then
    echo "check: failed:$failed" >&2
    exit 1
fi

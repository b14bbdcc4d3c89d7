#!/bin/sh
# Style, types and import contracts.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/mypy tools
.venv/bin/lint-imports
if command -v shellcheck >/dev/null; then
    shellcheck tools/*.sh .ci/run
fi

#!/bin/sh
# Hours under load, where the benchmarks have such a run.
set -eu
cd "$(dirname "$0")/.."

if [ ! -e benchmarks/soak.py ]; then
    echo "soak: there is no benchmarks/soak.py" >&2
    exit 2
fi
exec .venv/bin/python -m benchmarks.soak

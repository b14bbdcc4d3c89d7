#!/bin/sh
# The whole stack on this machine.
set -eu
cd "$(dirname "$0")/.."

if ! command -v prometheus >/dev/null; then
    tools/apt.sh prometheus || echo "demo: going on without Prometheus" >&2
fi
exec .venv/bin/gpu-minutes demo

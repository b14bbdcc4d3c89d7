#!/bin/sh
# A day of the exporter in minutes; SCRAPES=2000 tries it.
set -eu
cd "$(dirname "$0")/.."

exec .venv/bin/python -m benchmarks.soak ${SCRAPES:+--scrapes "$SCRAPES"}

#!/bin/sh
# All checks, then all tests; arguments go to pytest. Its summary comes last.
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # PACKAGE FILE-OR-COMMAND
    if ! command -v "$2" >/dev/null && [ ! -e "$2" ]; then missing="$missing $1"; fi
}
need gcc gcc
need libc6-dev /usr/include/stdlib.h
need prometheus prometheus
need victoria-metrics victoria-metrics
need strace strace
need prometheus-alertmanager prometheus-alertmanager
need chromium chromium
need openssl openssl
need curl curl
need shellcheck shellcheck
if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then missing="$missing postgresql"; fi
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086  # a list of words
    tools/apt.sh $missing
fi

tools/check.sh
# The tests bring their own servers; the user's must not be touched.
unset GPU_MINUTES_DATABASE_URL GPU_MINUTES_HOME GPU_MINUTES_PROMETHEUS_URL
unset GPU_MINUTES_PROMETHEUS_TOKEN_FILE GPU_MINUTES_PROMETHEUS_HEADERS_FILE
unset GPU_MINUTES_SITE_FILE GPU_MINUTES_ALERTMANAGER_URL
exec .venv/bin/python -m pytest -n 2 --dist loadscope "$@" tests

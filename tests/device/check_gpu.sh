#!/bin/sh
# What only a real GPU can answer, as text for docs/benchmarks.md. Ends within two minutes, changes no setting of the
# GPU, and fails (exit 1) if the exporter's page is broken.
#
#     tests/device/check_gpu.sh >report.md
#
# It needs this repository, Python 3.11 or newer, and the two packages of the exporter, from wherever it finds them:
#   1. WHEELS=DIR tests/device/check_gpu.sh    a folder with prometheus_client-*.whl and nvidia_ml_py-*.whl; no network.
#        Both are plain Python, so they are read as they lie. To get them, on a machine with a network:
#        python tools/runtime_requirements.py >r.txt && pip download --no-deps --require-hashes -r r.txt -d DIR
#   2. PYTHON=/path/to/python                  an interpreter that has them (default: .venv/bin/python, else python3)
#   3. neither: a throw-away environment is made with pip, by hash.
# Further arguments go to tests/device/check_gpu.py (--help).
set -eu
cd "$(dirname "$0")/../.."

python=${PYTHON:-}
if [ -z "$python" ]; then
    if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "check_gpu: $python is older than Python 3.11; name another with PYTHON=" >&2
    exit 2
fi
PYTHONPATH=$PWD
for wheel in "${WHEELS:-/nonexistent}"/*.whl; do
    if [ -e "$wheel" ]; then PYTHONPATH=$PYTHONPATH:$(realpath "$wheel"); fi
done
export PYTHONPATH

if ! "$python" -c 'import prometheus_client, pynvml' 2>/dev/null; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    echo "check_gpu: installing prometheus-client and nvidia-ml-py into $folder" >&2
    "$python" tools/runtime_requirements.py >"$folder/requirements.txt"
    "$python" -m venv "$folder/env"
    "$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        -r "$folder/requirements.txt" >&2
    python=$folder/env/bin/python
fi
# SIGTERM alone: a process that is killed inside the driver has frozen GPUs.
timeout 120 "$python" -m tests.device.check_gpu "$@"

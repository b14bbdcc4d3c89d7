#!/bin/sh
# Writes the pages that are generated from the code.
set -eu
cd "$(dirname "$0")/.."

for page in causes:tools.causes_page cli:tools.cli_page metrics:tools.metrics_page; do
    file=docs/${page%%:*}.md
    .venv/bin/python -m "${page#*:}" >"$file.new" || { rm -f "$file.new"; exit 1; }
    mv "$file.new" "$file"
    echo "$file"
done
.venv/bin/python -m tools.runbooks_page docs/runbooks
echo docs/runbooks
.venv/bin/gpu-minutes rules --exporter ours >deploy/rules/gpu-minutes.yml
echo deploy/rules/gpu-minutes.yml

#!/usr/bin/env bash
# Runs the main job on the embedded sample, then a firehose of stories, and writes to results/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
echo "treecast: first the embedded sample through Spark: half a minute, most of it for Spark to start; then a firehose of generated stories"
.venv/bin/python -m treecast run --render --output results
.venv/bin/python -m treecast demo --output results/firehose

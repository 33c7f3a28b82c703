#!/usr/bin/env bash
# Runs the main job on the embedded sample and writes to results/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/python -m treecast run --output results

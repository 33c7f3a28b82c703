#!/usr/bin/env bash
# The main job on the embedded sample: which of its subscriptions does each of its documents concern? Fills results/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/python -m treecast run --output results

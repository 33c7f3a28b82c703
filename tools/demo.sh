#!/usr/bin/env bash
# The main job on a sample: which of its subscriptions does each of its documents concern? Writes results/matches.tsv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sample=${1:-src/treecast/sample}
mkdir -p results
.venv/bin/python -m treecast match -s "$sample/subscriptions.csv" -o results/matches.tsv "$sample/documents"
echo "The matches (document, subscription) are in results/matches.tsv, which begins:"
head -n 8 results/matches.tsv

#!/usr/bin/env bash
# The main job on a sample: which of its subscriptions does each of its documents concern? Writes results/matches.tsv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sample=${1:-src/treecast/sample}
mkdir -p results
.venv/bin/python -m treecast match -s "$sample/subscriptions.csv" "$sample/documents" >results/matches.tsv
printf '%d documents, %d subscriptions, %d matches: results/matches.tsv (document, subscription)\n' \
    "$(find "$sample/documents" -name '*.xml' | wc -l)" "$(($(wc -l <"$sample/subscriptions.csv") - 1))" \
    "$(wc -l <results/matches.tsv)"
head -n 8 results/matches.tsv

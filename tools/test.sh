#!/usr/bin/env bash
# The test suite, then its native part under the sanitizers; arguments go to pytest.
#
# Without Java the tests marked spark cannot run: everything else does, and then the one line that says what is missing
# ends it with status 2, so that nothing passes for tested that was not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

tests="not long and not spark"
missing=$(TREECAST_NO_APT=1 bash tools/setup.sh java 2>&1) && missing="" tests="not long"
.venv/bin/python -m pytest -m "$tests" "$@" && bash tools/sanitize.sh
status=$?
if [ -n "$missing" ]; then
    printf '%s\n' "$missing" >&2
    [ $status -ne 0 ] || status=2
fi
exit $status

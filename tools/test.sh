#!/usr/bin/env bash
# The test suite, and beside it its native part under the sanitizers; arguments go to pytest.
#
# The suite waits for Spark much of the time, so both together take little longer than the longer one. What the sanitized
# part printed comes when the suite is done.
#
# Without Java the tests marked spark cannot run: everything else does, and then the one line that says what is missing
# ends it with status 2, so that nothing passes for tested that was not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

tests="not long and not spark"
missing=$(TREECAST_NO_APT=1 bash tools/setup.sh java 2>&1) && missing="" tests="not long"
mkdir -p build/sanitize
log=build/sanitize/tests.log
set -m    # a process group of its own, so that an interruption reaches all of it
bash tools/sanitize.sh >"$log" 2>&1 </dev/null &
sanitized=$!
set +m
trap 'kill -- "-$sanitized" 2>/dev/null; exit 130' INT TERM HUP
.venv/bin/python -m pytest -m "$tests" "$@"
status=$?
wait "$sanitized"
beside=$?
cat "$log"
[ $status -ne 0 ] || status=$beside
if [ -n "$missing" ]; then
    printf '%s\n' "$missing" >&2
    [ $status -ne 0 ] || status=2
fi
exit $status

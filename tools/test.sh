#!/usr/bin/env bash
# Runs the test suite, with Spark and without, and at the same time its native part under the sanitizers. Arguments go to
# pytest. Without any, what is about peers and services (which often waits for processes) has a process of its own, too.
#
# They wait in turns, so all together take little longer than the longest. The output of the others is printed when the
# first is done.
#
# Without Java the tests marked spark cannot run. Everything else runs, then one line says what is missing, and the exit
# status is 2, so that untested code does not count as tested.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

missing=$(TREECAST_NO_APT=1 bash tools/setup.sh java 2>&1) && missing=""
mkdir -p build/sanitize
set -m    # process groups of their own, so that an interruption reaches all of them
bash tools/sanitize.sh >build/sanitize/tests.log 2>&1 </dev/null &
sanitize=$! spark="" services=""
if [ -z "$missing" ]; then
    .venv/bin/python -m pytest -p no:cacheprovider -m "not long and spark" "$@" >build/spark-tests.log 2>&1 </dev/null &
    spark=$!
fi
if [ $# -eq 0 ]; then
    apart=(tests/overlay tests/serve tests/sim)
    .venv/bin/python -m pytest -p no:cacheprovider -m "not long and not spark" "${apart[@]}" \
        >build/service-tests.log 2>&1 </dev/null &
    services=$!
    set -- "${apart[@]/#/--ignore=}"
fi
set +m
trap 'for group in $sanitize $spark $services; do kill -- "-$group" 2>/dev/null; done; exit 130' INT TERM HUP

.venv/bin/python -m pytest -m "not long and not spark" "$@"
plain=$? sparked=0 served=0
if [ -n "$services" ]; then
    wait "$services"
    served=$?
    cat build/service-tests.log
fi
if [ -n "$spark" ]; then
    wait "$spark"
    sparked=$?
    cat build/spark-tests.log
fi
wait "$sanitize"
sanitized=$?
cat build/sanitize/tests.log

none=5    # pytest's status for "no tests found". It is an error only if both halves report it.
if [ $plain -eq $none ] && [ $sparked -ne $none ]; then plain=0; fi
if [ $sparked -eq $none ] && [ $plain -ne $none ]; then sparked=0; fi
status=0
for ended in $plain $served $sparked $sanitized; do
    [ $status -ne 0 ] || status=$ended
done
if [ -n "$missing" ]; then
    printf '%s\n' "$missing" >&2
    [ $status -ne 0 ] || status=2
fi
exit $status

#!/usr/bin/env bash
# Builds treecast with the address and undefined-behaviour sanitizers into build/sanitize and runs the native tests there,
# and the small twins of the fuzz targets.
#
#   tools/sanitize.sh                   the tests that reach native code: all but those marked long, house or spark
#   tools/sanitize.sh tests/x.py -k y   these, with pytest's own arguments
#   TREECAST_SANITIZER=thread tools/sanitize.sh   with the thread sanitizer, in build/sanitize-thread: the tests that use threads
#
# build/sanitize/venv sees the packages of .venv but not the treecast in it, so child processes are sanitized too. The
# runtime must be loaded before Python, together with libstdc++, which it asks how to throw. Python's own allocator is
# off: in its arenas an overrun of a small object would go unnoticed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home=$PWD/build/sanitize libraries="libasan.so libubsan.so" kind=ON run=()
tests=(-m "not long and not house and not spark")
if [ "${TREECAST_SANITIZER:-}" = thread ]; then
    # Its runtime needs addresses that are not drawn at random.
    home=$PWD/build/sanitize-thread libraries=libtsan.so kind=thread run=(setarch "$(uname -m)" -R)
    tests=(-m "not long and not house and not spark")
    tests+=(tests/test_index_threads.py tests/test_index_results.py tests/test_index_merge.py tests/test_index_changes.py)
    tests+=(tests/test_path_merge.py tests/test_render_many.py tests/test_mutable_documents.py tests/test_document_once.py)
    # A child of a process that has had threads cannot start any under this sanitizer.
    tests+=(--deselect "tests/test_index_threads.py::test_an_index_works_on_both_sides_of_a_fork[2]")
fi
log=$home/build.log
compiler=${CXX:-g++}
preload=""
for library in $libraries libstdc++.so; do
    found=$($compiler -print-file-name="$library" 2>/dev/null || true)
    if [[ $found != /* ]]; then
        echo "treecast: the sanitizer build needs gcc's $library; run as root: apt-get install -y g++" >&2
        exit 2
    fi
    preload+="$found "
done

build() {
    local python=$PWD/.venv/bin/python
    export PATH=$PWD/.venv/bin:$PATH CXX=$compiler
    cmake -S . -B "$home/cmake" -G Ninja -DCMAKE_BUILD_TYPE= "-DTREECAST_SANITIZE=$kind" "-DPython_EXECUTABLE=$python"
    # No more compilers than cores: each takes much memory, and tests run beside them. (set -e does not hold in a function
    # that "if" calls.)
    cmake --build "$home/cmake" --parallel "$(nproc)" || return 1
    rm -rf "$home/site"
    mkdir -p "$home/site"
    cp -R src/treecast "$home/site/treecast"
    cmake --install "$home/cmake" --prefix "$home/site"
    [ -x "$home/venv/bin/python" ] || "$python" -m venv --without-pip "$home/venv"
    local packages
    packages=$("$home/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$home/site" "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
        >"$packages/sanitized.pth"
}

mkdir -p "$home"
echo "treecast: building with sanitizers (log: ${log#"$PWD"/})"
if ! build >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    exit 1
fi
if grep ' warning: ' "$log" >&2; then
    echo "treecast: the compiler warns (log: ${log#"$PWD"/}); the build is to be without warnings" >&2
    exit 1
fi

export LD_PRELOAD=$preload
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# pytest keeps what a test prints to itself, so what the thread sanitizer reports goes to files.
export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:report_signal_unsafe=0:log_path=$home/race
export PYTHONMALLOC=malloc TREECAST_SANITIZED=1
python=$home/venv/bin/python
"${run[@]}" "$python" -c "
import sys, treecast._native
sys.exit(not treecast._native.__file__.startswith(sys.argv[1]) and 'the sanitized module is not the one imported')
" "$home/site"
if [ $# -eq 0 ]; then
    set -- "${tests[@]}"
    if [ $kind = ON ]; then
        echo "treecast: the twins of the fuzz targets (log: ${log%/*}/fuzz.log)"
        if ! "$home/cmake/fuzz_twin" tests/fuzz 200 >"$home/fuzz.log" 2>&1; then
            tail -n 60 "$home/fuzz.log" >&2
            exit 1
        fi
    fi
fi
echo "treecast: the native tests under the sanitizers"
rm -f "$home"/race.*
status=0
"${run[@]}" "$python" -m pytest -q -p no:cacheprovider "$@" || status=$?
for report in "$home"/race.*; do
    [ ! -f "$report" ] || cat "$report"
done
exit $status

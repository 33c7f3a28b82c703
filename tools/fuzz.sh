#!/usr/bin/env bash
# Coverage-guided fuzzing (clang's libFuzzer) of every tests/fuzz/fuzz_*.cpp, under the address and undefined-behaviour
# sanitizers, FUZZ_SECONDS each. A target states its invariant at its top; seeds are the files of tests/fuzz/seeds/NAME, if
# any. The corpus grows in build/fuzz/NAME; a finding is left in build/fuzz as crash-NAME-…, and the exit status is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash tools/setup.sh fuzzer || exit $?

sources=(tests/fuzz/fuzz_*.cpp)
seconds=${FUZZ_SECONDS:-20}
home=$PWD/build/fuzz
log=$home/build.log

build() {
    export PATH=$PWD/.venv/bin:$PATH CXX=clang++
    cmake -S . -B "$home/cmake" -G Ninja -DCMAKE_BUILD_TYPE= -DTREECAST_FUZZ=ON
    cmake --build "$home/cmake"
}

mkdir -p "$home"
echo "treecast: building the fuzz targets (log: build/fuzz/build.log)"
if ! build >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    exit 1
fi

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
status=0
for source in "${sources[@]}"; do
    name=$(basename "$source" .cpp)
    corpus=("$home/$name")
    mkdir -p "${corpus[0]}"
    [ ! -d "tests/fuzz/seeds/$name" ] || corpus+=("tests/fuzz/seeds/$name")
    arguments=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1
        -artifact_prefix="$home/crash-$name-")
    [ ! -f "tests/fuzz/$name.dict" ] || arguments+=(-dict="tests/fuzz/$name.dict")
    echo "treecast: fuzzing $name for $seconds s (log: build/fuzz/$name.log)"
    if "$home/cmake/$name" "${arguments[@]}" "${corpus[@]}" >"$home/$name.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$home/$name.log")
        covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$home/$name.log" | tail -n 1)
        echo "treecast: $name: no finding in $runs inputs, $covered edges covered"
    else
        tail -n 60 "$home/$name.log" >&2
        status=1
    fi
done
exit $status

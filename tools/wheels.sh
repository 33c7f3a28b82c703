#!/usr/bin/env bash
# Builds wheels for any recent Linux in dist/: one for each Python from 3.11 on that is found here, or for those named.
#
#   tools/wheels.sh                      every python3.11, python3.12, … on the PATH that has headers
#   tools/wheels.sh /opt/py/bin/python   these
#
# libstdc++ and libgcc are linked into the module, so the age of glibc alone decides where a wheel runs. auditwheel reads which
# of glibc's symbols it needs and gives the wheel its manylinux tag: the glibc of this machine, more or less. For an older one build in a
# container that has it, and set TREECAST_PLATFORM (manylinux_2_28): more than that is then an error.
# Each wheel is then installed in a clean venv whose PATH has no compiler, where it must match a document.
#
# Compilers and headers of another machine: CXX=aarch64-linux-gnu-g++ is not enough, because nanobind's stubs are made by importing the
# module. An aarch64 wheel is built on such a machine, by the same command (.github/workflows/wheels.yml).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=$PWD/build/wheels
platform=auto
[ -z "${TREECAST_PLATFORM:-}" ] || platform=${TREECAST_PLATFORM}_$(uname -m)
log=$home/build.log
mkdir -p "$home" dist
: >"$log"

pythons=("$@")
if [ ${#pythons[@]} -eq 0 ]; then
    for name in python3.11 python3.12 python3.13 python3.14; do
        if "$name" -c 'import os, sysconfig, venv; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; then
            pythons+=("$name")
        fi
    done
fi

wanted=$(.venv/bin/python tools/dependency_group.py release)
if [ "$(cat "$home/group" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$home/audit"
    .venv/bin/python -m venv "$home/audit"
    # shellcheck disable=SC2086
    "$home/audit/bin/python" -m pip install --quiet --disable-pip-version-check $wanted >>"$log" 2>&1
    echo "$wanted" >"$home/group"
fi

# The first match, by somebody who has nothing: no compiler on the PATH, no packages but those that pip fetches.
try() {
    local python=$1 wheel=$2 place began=$EPOCHREALTIME
    place=$(mktemp -d)
    "$python" -m venv "$place/venv"
    "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$wheel" >>"$log" 2>&1
    (cd "$place" && env -i PATH="$place/venv/bin" "$place/venv/bin/python" -c '
import treecast
index = treecast.Index()
index.add("titles", "//item[@lang=\"en\"]/title")
assert index.match(b"<news><item lang=\"en\"><title/></item></news>") == ["titles"]
') || { echo "treecast: ${wheel##*/} does not match in a clean venv" >&2; return 1; }
    rm -rf "$place"
    .venv/bin/python -c "print('treecast: ${wheel##*/}: installed, first match after %.1f s' % ($EPOCHREALTIME - $began))"
}

for python in "${pythons[@]}"; do
    echo "treecast: building a wheel for $("$python" --version) (log: build/wheels/build.log)"
    raw=$(mktemp -d "$home/raw.XXXXXX")
    # A build of its own: the one of `make setup` links the libraries of this machine.
    "$python" -m venv "$raw/venv"
    "$raw/venv/bin/python" -m pip wheel --verbose . --no-deps --wheel-dir "$raw/wheel" --disable-pip-version-check \
        -C "build-dir=build/wheels/{wheel_tag}" -C cmake.define.TREECAST_STATIC_RUNTIME=ON >>"$log" 2>&1 ||
        { tail -n 30 "$log" >&2; exit 1; }
    PATH="$home/audit/bin:$PATH" "$home/audit/bin/python" -m auditwheel repair --plat "$platform" --wheel-dir "$raw/repaired" \
        "$raw"/wheel/*.whl >>"$log" 2>&1 || { tail -n 5 "$log" >&2; exit 1; }
    for wheel in "$raw"/repaired/*.whl; do
        try "$python" "$wheel"
        mv "$wheel" dist/
    done
    rm -rf "$raw"
done

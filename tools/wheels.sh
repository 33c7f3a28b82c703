#!/usr/bin/env bash
# Builds wheels in dist/ for any recent Linux, x86-64 and aarch64, on one machine, and tries in a clean venv each that can run here.
#
#   tools/wheels.sh                       for every Python from 3.11 on that is found and has headers
#   tools/wheels.sh /opt/py/bin/python …  for these
#   TREECAST_TARGETS="x86_64-linux-musl" tools/wheels.sh
#
# The compiler is zig's clang, from PyPI: it has the headers and symbols of every glibc, so the wheel does not need the one of this
# machine, and it compiles for other processors. Its libc++ is linked into the module and not seen from outside.
# A target is what zig calls so, with the version of glibc: that decides where a wheel runs. auditwheel reads the wheel's symbols,
# gives it its tag, and fails where it needs more than that.
#
# There is a wheel for Python 3.11, and one for the stable ABI that serves Python 3.12 and all later ones (docs/decisions.md). The core
# knows nothing of Python and is compiled once for each target.
#
# A wheel for another processor is not tried here; tools/foreign_wheel.sh tries it under qemu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=$PWD/build/wheels
log=$home/build.log
here=$(uname -m)
read -ra targets <<<"${TREECAST_TARGETS:-x86_64-linux-gnu.2.28 aarch64-linux-gnu.2.28}"
mkdir -p "$home" dist
: >"$log"
unset CMAKE_CXX_COMPILER_LAUNCHER    # a cache of single files would compile them one by one

fail() { tail -n 30 "$log" >&2; echo "treecast: $1; the whole log is in build/wheels/build.log" >&2; exit 1; }

has_headers='import os, sys, sysconfig, venv
assert sys.version_info >= (3, 11) and os.path.exists(sysconfig.get_path("include") + "/Python.h")'
pythons=("$@")
if [ ${#pythons[@]} -eq 0 ]; then
    for version in 3.11 3.12 3.13 3.14; do
        for candidate in "python$version" /usr/bin/python$version "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
            "$candidate" -c "$has_headers" 2>/dev/null || continue
            pythons+=("$candidate")
            break
        done
    done
fi
[ ${#pythons[@]} -gt 0 ] || { echo "treecast: no Python from 3.11 on with Python.h was found" >&2; exit 2; }

# The compiler and auditwheel, in a venv of their own.
wanted=$(.venv/bin/python tools/dependency_group.py release)
if [ "$(cat "$home/group" 2>/dev/null)" != "$wanted" ]; then
    echo "treecast: installing the compiler and auditwheel in build/wheels"
    rm -rf "$home/tools"
    .venv/bin/python -m venv "$home/tools"
    # shellcheck disable=SC2086
    "$home/tools/bin/python" -m pip install --quiet --disable-pip-version-check $wanted >>"$log" 2>&1 || fail "pip failed"
    echo "$wanted" >"$home/group"
fi
zig=$(readlink -f "$home"/tools/lib/python*/site-packages/ziglang/zig)

# The compiler of a target, as a command. Debian's pyconfig.h includes that of the processor from a folder which only Debian's
# compilers search: these headers differ in nothing that an extension sees, so all processors get the one that is here. With -O2
# from the first trial of CMake on, zig builds its libraries once and not a second time for debugging.
make_compiler() {
    local target=$1 include=$home/include triple
    mkdir -p "$include"
    for triple in x86_64-linux-gnu aarch64-linux-gnu; do
        [ ! -d "/usr/include/$here-linux-gnu" ] || ln -sfn "/usr/include/$here-linux-gnu" "$include/$triple"
    done
    printf '#!/bin/sh\nexec "%s" c++ -target %s -O2 "$@" -idirafter "%s"\n' "$zig" "$target" "$include" >"$home/$target-c++"
    chmod +x "$home/$target-c++"
}

# What a wheel for the target is called, in auditwheel's words.
platform_of() {
    local target=$1 machine=${1%%-*}
    case $target in
        *-gnu.*) echo "manylinux_$(sed 's/.*gnu\.//; s/\./_/' <<<"$target")_$machine" ;;
        *-musl) echo "musllinux_1_2_$machine" ;;
        *) echo "treecast: $target is no target of a wheel, such as x86_64-linux-gnu.2.28 or aarch64-linux-musl" >&2; exit 2 ;;
    esac
}

# auditwheel knows the names of its own processor only. Of others it finds the tag, which check_tag then compares.
asked_of_auditwheel() { if [[ $1 == "$here"-* ]]; then platform_of "$1"; else echo auto; fi; }

# check_tag PLATFORM WHEEL: the wheel needs no newer C library than that.
check_tag() {
    local wanted=$1 found
    found=$(grep -oE '(many|musl)linux_[0-9]+_[0-9]+_[a-z0-9_]+' <<<"$(basename "$2" .whl)" | sort -V | tail -n 1)
    [ -n "$found" ] && [ "$(printf '%s\n' "$found" "$wanted" | sort -V | tail -n 1)" = "$wanted" ] ||
        fail "the wheel is ${found:-not tagged}, which is not $wanted or older"
}

# build TARGET PYTHON: a wheel in $raw/wheel. By itself zig keeps frame pointers and makes -O2 of -O3, which takes some percent more time.
build() {
    local target=$1 python=$2 machine=${1%%-*} kind=gnu suffix
    local settings=(-C "build-dir=build/wheels/$target/{wheel_tag}" -C wheel.py-api=cp312 -C cmake.define.TREECAST_STATIC_RUNTIME=ON
        -C "cmake.define.CMAKE_CXX_COMPILER=$home/$target-c++" -C cmake.define.CMAKE_DISABLE_PRECOMPILE_HEADERS=ON
        -C "cmake.define.CMAKE_CXX_FLAGS=-fomit-frame-pointer -Xclang -O3" -C "cmake.define.TREECAST_STUBS=$PWD/src/treecast/_native")
    [ ! -f "$home/$target/core.a" ] || settings+=(-C "cmake.define.TREECAST_CORE=$home/$target/core.a")
    [[ $target != *-musl ]] || kind=musl
    suffix=.cpython-$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')-$machine-linux-$kind.so
    "$python" -m venv "$raw/venv"
    _PYTHON_HOST_PLATFORM=linux-$machine SETUPTOOLS_EXT_SUFFIX=$suffix "$raw/venv/bin/python" -m pip wheel --verbose . --no-deps \
        --wheel-dir "$raw/wheel" --disable-pip-version-check "${settings[@]}" >>"$log" 2>&1 || fail "the build for $target failed"
    [ -f "$home/$target/core.a" ] || cp "$home/$target"/cp*/libtreecast_core.a "$home/$target/core.a"
}

for target in "${targets[@]}"; do
    platform=$(platform_of "$target")
    make_compiler "$target"
    rm -rf "${home:?}/$target"
    stable=""
    for python in "${pythons[@]}"; do
        wheel=$stable
        if [ -z "$wheel" ]; then
            echo "treecast: building for $("$python" --version), $target (log: build/wheels/build.log)"
            raw=$(mktemp -d "$home/raw.XXXXXX")
            build "$target" "$python"
            PATH="$home/tools/bin:$PATH" "$home/tools/bin/python" -m auditwheel repair --plat "$(asked_of_auditwheel "$target")" \
                --wheel-dir "$raw/repaired" "$raw"/wheel/*.whl >>"$log" 2>&1 || fail "auditwheel refuses the wheel for $target"
            [[ $target == "$here"-* ]] || check_tag "$platform" "$raw"/repaired/*.whl
            wheel=dist/$(basename "$raw"/repaired/*.whl)
            mv "$raw"/repaired/*.whl "$wheel"
            rm -rf "$raw"
            [[ $wheel != *-abi3-* ]] || stable=$wheel
            [[ $target == "$here"-linux-gnu* ]] || echo "treecast: ${wheel##*/}: built; tools/foreign_wheel.sh tries it"
        fi
        [[ $target == "$here"-linux-gnu* ]] || continue
        extras=none
        [[ $python != "${pythons[0]}" && $python != "${pythons[-1]}" ]] || extras=all
        .venv/bin/python tools/try_wheel.py "$wheel" $extras --python "$python" || fail "${wheel##*/} does not work in a clean venv"
    done
done

#!/usr/bin/env bash
# Tries a wheel for aarch64 on a machine that is none: a first match and tests of the core, under qemu.
#
#   tools/foreign_wheel.sh                                  the wheel of dist/ for Python 3.11, and the tests named below
#   tools/foreign_wheel.sh tests/test_wire.py -k binary     these tests
#
# Debian's arm64 packages of Python are unpacked in build/wheels/arm64, and not installed: qemu finds there what the program asks for.
# Needs a Debian 12 with qemu-user-static and debootstrap, as root; `make wheels` makes the wheel. What differs from x86-64 is what
# this is for: the reader without vectors, machines without PEXT, and chars without a sign. Time under qemu says nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=$PWD/build/wheels
world=$home/arm64
site=$home/arm64-site
tests=("$@")
[ $# -gt 0 ] || tests=(tests/test_cases.py tests/test_reader.py tests/test_checksums.py tests/test_saved.py tests/test_predicates.py)

for command in qemu-aarch64-static debootstrap; do
    PATH=$PATH:/usr/sbin command -v $command >/dev/null ||
        { echo "treecast: missing: $command; run as root: apt-get install -y --no-install-recommends qemu-user-static debootstrap" >&2; exit 2; }
done
wheel=$(ls dist/treecast-*-cp311-cp311-manylinux*_aarch64.whl)

if [ ! -e "$world/complete" ]; then
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian [a-z]* //p' | head -n 1)
    echo "treecast: fetching Debian's Python for arm64"
    debootstrap --arch=arm64 --variant=minbase --include=python3 --foreign bookworm "$world" "${mirror%/}" >"$home/arm64.log" 2>&1 ||
        { tail -n 20 "$home/arm64.log" >&2; exit 1; }
    for package in "$world"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$world"; done
    touch "$world/complete"
fi

# The wheel and what its tests need, as pip would choose it there.
rm -rf "$site"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$site" --only-binary :all: --python-version 3.11 \
    --implementation cp --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 "$wheel" pytest hypothesis lxml msgspec structlog

foreign() {
    qemu-aarch64-static -L "$world" -E PYTHONHOME="$world/usr" -E PYTHONPATH="$site" -E PYTHONDONTWRITEBYTECODE=1 \
        "$world/usr/bin/python3.11" "$@"
}

foreign -c '
import platform, treecast
index = treecast.Index()
index.add("titles", "//item[@lang=\"en\"]/title")
assert index.match(b"<news><item lang=\"en\"><title/></item></news>") == ["titles"]
print("treecast: first match on", platform.machine())
'
foreign -m pytest -q -p no:cacheprovider "${tests[@]}"

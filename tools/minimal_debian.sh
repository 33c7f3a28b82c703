#!/usr/bin/env bash
# Does treecast work on a minimal Debian 12, as debootstrap makes it? Needs root, on a Debian.
#
#   tools/minimal_debian.sh          a clean clone where there is nothing but make and git: `make demo` and `make test`
#   tools/minimal_debian.sh wheel    the wheel of dist/ where there is nothing but Python: pip install and a first match
#
# The clone is of this checkout's HEAD; its commands run as an ordinary user and as root. Java is missing at first. At the end it
# is hidden, to check that the other tests run and that the last line reports it. The wheel has 15 s, without any compiler.
#
# The Debian mirror, pip's configuration and the certificates are those that this machine itself uses, found out at run time.
# What was seen goes to build/minimal-debian.md. All mounts live in a namespace of their own and vanish with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "$(id -u)" != 0 ]; then
    echo "treecast: the minimal Debian needs root; run as root: bash tools/minimal_debian.sh" >&2
    exit 2
fi
part=${1:-clone}
case $part in
    clone) packages=make,git record=$PWD/build/minimal-debian.md ;;
    wheel) packages=python3,python3-venv record=$PWD/build/minimal-debian-wheel.md ;;
    *) echo "treecast: tools/minimal_debian.sh takes nothing, or wheel" >&2; exit 2 ;;
esac
bash tools/setup.sh debootstrap || exit $?
if [ -z "${TREECAST_UNSHARED:-}" ]; then
    TREECAST_UNSHARED=1 exec unshare --mount --propagation private bash tools/minimal_debian.sh "$part"
fi

checkout=$PWD
logs=$PWD/build/minimal-debian
world=$(mktemp -d "${TMPDIR:-/tmp}/treecast-debian.XXXXXX")
mkdir -p "$logs"
chmod 755 "$world"
cleanup() {
    local place
    for place in $(sed -n "s#^[^ ]* \($world/[^ ]*\) .*#\1#p" /proc/self/mounts | sort -r); do umount "$place"; done
    rm -rf --one-file-system "$world"
}
trap cleanup EXIT

# ---- the world: Debian, and this machine's way to its registries ----

# A directory that a setting names appears at the same place in the world: a small one copied, so that Debian's packages
# may write there, a large one mounted. A file goes below /this-machine and the setting
# follows it: the certificates' usual file is rewritten when Debian's own package of them is installed.
carry() {
    local from=$1
    if [ -f "$from" ]; then
        mkdir -p "$world/this-machine$(dirname "$from")"
        cp -L "$from" "$world/this-machine$from"
        settings=("${settings[@]//"$from"//this-machine$from}")
        configuration=${configuration//"$from"//this-machine$from}
    elif [ -d "$from" ] && [ "$(du -sm "$from" | cut -f1)" -le 16 ]; then
        mkdir -p "$world$from"
        cp -rL --remove-destination "$from/." "$world$from"    # never through a link of the world into this machine
    elif [ -d "$from" ] && [ ! -d "$world$from" ]; then
        mkdir -p "$world$from"
        mount --bind "$from" "$world$from"
        mount -o remount,bind,ro "$world$from"
    fi
}

paths_in() {    # the local paths that some settings name; of a file: index its parent, where the files lie
    tr " '\"=" '\n\n\n\n' | while read -r word; do
        case $word in
            file:///*) dirname "${word#file://}" ;;
            /*) echo "$word" ;;
        esac
    done | sort -u
}

mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    sed -n 's/^Debian [a-z]* //p' | head -n 1)
echo "treecast: building a minimal Debian 12"
debootstrap --variant=minbase --include="$packages" bookworm "$world" "${mirror:?no Debian mirror in the apt sources}" \
    >"$logs/debootstrap.log" 2>&1 || { tail -n 20 "$logs/debootstrap.log" >&2; exit 1; }
apt-config dump | grep -E '^Acquire::(https?|Check-Valid-Until|ForceIPv4|Retries)\b.*[^"]";$' \
    >"$world/etc/apt/apt.conf.d/90this-machine" || true
cp -L /etc/resolv.conf /etc/hosts "$world/etc/"
mount -t proc proc "$world/proc"
mkdir -p "$world/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$world/dev/pts"    # every running Debian has it
ln -sf pts/ptmx "$world/dev/ptmx"

mapfile -t settings < <(env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|CURL_CA_BUNDLE=|GIT_SSL_|(https?|no|HTTPS?|NO)_(proxy|PROXY)=)')
configuration=$(.venv/bin/python -m pip config list | grep -v '^:env:' || true)
mapfile -t places < <(printf '%s\n' "${settings[@]}" "$configuration" | paths_in)
for place in "${places[@]}"; do carry "$place"; done
CONFIGURATION=$configuration .venv/bin/python - >"$world/etc/pip.conf" <<'PY'
import ast, os

sections: dict[str, list[str]] = {}
for line in os.environ["CONFIGURATION"].splitlines():
    key, value = line.split("=", 1)
    section, name = key.split(".", 1)
    sections.setdefault(section, []).append(f"{name} = {ast.literal_eval(value)}")
for section, lines in sections.items():
    print(f"[{section}]", *lines, sep="\n")
PY

chroot "$world" useradd --create-home --shell /bin/bash someone
for home in /root /home/someone; do
    if [ "$part" = wheel ]; then
        mkdir "$world$home/treecast"
        cp dist/treecast-*-cp311-cp311-manylinux*_"$(uname -m)".whl "$world$home/treecast/"
    else
        git clone --quiet --no-local "$checkout" "$world$home/treecast"
    fi
done
chroot "$world" chown -R someone:someone /home/someone

# ---- what is tried ----

inside() {    # inside USER VARIABLE=… make TARGET: a command in that user's clone
    local user=$1 home=/root
    shift
    [ "$user" = root ] || home=/home/$user
    # shellcheck disable=SC2016
    chroot --userspec="$user" "$world" /usr/bin/env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" \
        bash -c 'cd "$HOME/treecast" && exec "$@"' bash env "$@"
}

failed=0
number=0
try() {    # try USER EXPECTED-STATUS command…; late-2 expects the refusal of 2 after everything else has run
    local user=$1 late=$2 expected=${2#late-} log status=0 began=$SECONDS verdict=ok
    shift 2
    number=$((number + 1))
    log=$logs/$number.log
    inside "$user" "$@" >"$log" 2>&1 </dev/null || status=$?
    [ $status -eq "$expected" ] || verdict="FAILED, $expected was expected"
    if [ "$late" = late-2 ]; then
        [ "$(grep -c '^=.* passed.* in ' "$log")" -ge 1 ] || verdict="FAILED, the other tests were not run"
        [[ "$(grep -v '^make: ' "$log" | tail -n 1)" == *"missing: Java"* ]] || verdict="FAILED, the last line is another"
    elif [ "$expected" -eq 2 ]; then
        # One line and nothing else but make's own; and not a file more than the clone had.
        [ "$(grep -vc '^make: ' "$log")" -eq 1 ] || verdict="FAILED, not exactly one line"
        [ -z "$(inside "$user" git status --porcelain --ignored)" ] || verdict="FAILED, something was created"
    fi
    [ "$verdict" = ok ] || failed=1
    took=$((SECONDS - began))
    echo "treecast: as $user: $* -> status $status, $((SECONDS - began)) s: $verdict"
    {
        printf '\n## %d. As %s: `%s`\n\nStatus %d after %d s: %s\n\n```\n' \
            $number "$user" "$*" $status $((SECONDS - began)) "$verdict"
        # The significant lines, without those that a test run prints between them.
        grep -E '^(treecast|make: |=+ .* in )|^[0-9]+ passed|results/|^FAILED|^ERROR' "$log" | grep -v ' … [0-9]* s$' | tail -n 12
        printf '```\n'
    } >>"$record"
    [ "$verdict" = ok ] || { tail -n 30 "$log" >&2; }
}

if [ "$part" = wheel ]; then
    cat >"$world/home/someone/treecast/first.sh" <<'SH'
set -eu
! command -v cc c++ gcc g++ clang make
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: treecast-*.whl
venv/bin/python - <<'PY'
import treecast

index = treecast.Index()
index.add("titles", "//item[@lang='en']/title")
print("treecast", treecast.__version__, "matches", index.match(b"<news><item lang='en'><title/></item></news>"))
PY
SH
    {
        printf '# The wheel on a minimal Debian 12\n\n'
        printf 'Made by `bash tools/minimal_debian.sh wheel` on %s: debootstrap, variant minbase, with python3 and python3-venv only.\n' \
            "$(date +%Y-%m-%d)"
        printf 'The wheel: %s. Load average at the start: %s.\n' \
            "$(basename "$world"/home/someone/treecast/*.whl)" "$(cut -d' ' -f1-3 /proc/loadavg)"
    } >"$record"
    try someone 0 bash first.sh
    [ "$took" -le 15 ] || { echo "treecast: the first match came after $took s; 15 are the limit" >&2; failed=1; }
    echo "treecast: written to ${record#"$PWD"/}"
    exit $failed
fi

{
    printf '# A clean clone on a minimal Debian 12\n\n'
    printf 'Made by `bash tools/minimal_debian.sh` on %s from commit %s: debootstrap, variant minbase, with make and git only.\n' \
        "$(date +%Y-%m-%d)" "$(git rev-parse --short HEAD)"
} >"$record"

try someone 2 make demo
try someone 2 make test
try root 2 TREECAST_NO_APT=1 make demo
try root 0 make demo
try root 0 make test
inside someone mkdir -p .venv/bin    # as a failed `python3 -m venv` leaves it
try someone 0 make test
try someone late-2 JAVA_HOME=/nowhere make test
try someone 0 make demo
try someone 0 make demo
echo "treecast: written to build/minimal-debian.md"
exit $failed

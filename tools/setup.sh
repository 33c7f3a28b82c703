#!/usr/bin/env bash
# Makes .venv, with treecast built and installed in it. Every make target that needs it calls this first.
#
#   tools/setup.sh             the venv
#   tools/setup.sh java        the venv, and Java for Spark
#   tools/setup.sh maybe-java  the same, but if Java is missing and cannot be installed, the venv is made anyway
#   tools/setup.sh maybe-nats  the venv, and nats-server if it can be installed; tests that need it report if it is missing
#   tools/setup.sh maybe-chromium  the same for Chromium, in which tests look at the console
#   tools/setup.sh maybe-xmlsec1   the same for xmlsec1, which verifies signatures in tests
#   tools/setup.sh maybe-npm   the venv, and tests/npm in build/npm where npm is installed; tests that need it report if not
#   tools/setup.sh maybe-maven the venv, and the Java programs of tests/maven in build/maven, where Maven is installed; likewise
#   tools/setup.sh fuzzer      the venv, and a clang that has libFuzzer
#   tools/setup.sh debootstrap the venv, and debootstrap for a minimal Debian
#
# Order of events:
#   1. If the stamp fits the sources, there is nothing to do.
#   2. Everything is checked in one pass, which creates nothing.
#   3. As root, and unless TREECAST_NO_APT=1, apt-get installs what is missing. Otherwise exactly one line names it, and the
#      exit status is 2.
#      A server that cannot be reached, Debian's or PyPI's, is such a line too.
#   4. The venv is made and its stamp written last. A venv without a stamp is incomplete: it is removed and made again.
# A change of pyproject.toml, requirements.lock, CMakeLists.txt or native/ reinstalls, and so does a new package. On its
# platform requirements.lock decides the packages, checked by their hashes (tools/lock.py writes it). Elsewhere the ranges
# of pyproject.toml decide, and a message says so.
#
# Settings: TREECAST_PYTHON (the Python to use instead of the first that fits), TREECAST_NO_APT=1, CXX, JAVA_HOME.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
unset PYTHONPATH PYTHONHOME
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

DISK_MB_MIN=3072
JAVA_VERSION_MIN=17
VENV=.venv
STAMP=$VENV/treecast.stamp
LOG=build/setup.log
CHECKS="writable disk python compiler"    # one check_… function each

say() { printf 'treecast set-up: %s\n' "$*"; }

# ---- what the venv was made from: checkout, dependencies, packages and native sources; one line each in the stamp ----

digest() { sha256sum | cut -c1-64; }
packages_wanted() { cat pyproject.toml requirements.lock 2>/dev/null | digest; }
fingerprint() {
    pwd -P
    packages_wanted
    {
        cat CMakeLists.txt
        find src -type d ! -name __pycache__ | LC_ALL=C sort    # an editable install knows the packages it was made with
        find native -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    } | digest
}
stamp_line() { sed -n "${1}p" "$STAMP" 2>/dev/null; }
current() { [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ] && "$VENV/bin/python" -c '' 2>/dev/null; }

# ---- checks: each calls `lack "what" package…` or `problem "what" "remedy"`, and creates nothing ----

lacks=() packages=() problems=() remedies=()
lack() { lacks+=("$1"); shift; packages+=("$@"); }
problem() { problems+=("$1"); remedies+=("$2"); }

check_writable() {
    local place
    for place in . "$VENV" build results; do
        if [ -e "$place" ] && [ ! -w "$place" ]; then
            problem "$(readlink -f "$place") is not writable" "run as root: chown -R $(id -un) '$(pwd -P)'"
            return
        fi
    done
}

check_disk() {
    [ -f "$STAMP" ] && return    # the space is already in use
    local blocks bytes free_mb
    read -r blocks bytes < <(stat -f -c '%a %S' . 2>/dev/null) || return
    free_mb=$((blocks * bytes / 1048576))
    [ "$free_mb" -ge "$DISK_MB_MIN" ] ||
        problem "$free_mb MB of disk free where $DISK_MB_MIN MB are needed" "free $((DISK_MB_MIN - free_mb)) MB below $(pwd -P)"
}

# Prints "old", or "3.11 venv headers" with "-" for what that Python lacks.
PROBE='
import sys
if sys.version_info < (3, 11):
    print("old")
    sys.exit()
words = ["%d.%d" % sys.version_info[:2], "venv", "headers"]
try:
    import ensurepip, venv
    ensurepip.version()
except Exception:
    words[1] = "-"
try:
    import os, sysconfig
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        words[2] = "-"
except Exception:
    words[2] = "-"
print(*words)
'
python=""
check_python() {
    local candidate version venv headers best="" best_version="" old=""
    local candidates=(python3 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3)
    [ -z "${TREECAST_PYTHON:-}" ] || candidates=("$TREECAST_PYTHON")
    python=""
    for candidate in "${candidates[@]}"; do
        version=""
        read -r version venv headers < <("$candidate" -I -B -c "$PROBE" 2>/dev/null)
        case $version in
            "") continue ;;
            old) old=yes; continue ;;
        esac
        if [ "$venv $headers" = "venv headers" ]; then
            python=$candidate
            return
        fi
        [ -n "$best" ] || best="$version $venv $headers $candidate"
    done
    if [ -z "$best" ]; then
        # If python3 is old, a newer Python of the distribution has its version in the package name.
        local name=python3
        [ -z "$old" ] || name=python3.11
        lack "Python 3.11 or newer with venv and Python.h" "$name" "$name-venv" "$name-dev"
        return
    fi
    read -r best_version venv headers candidate <<<"$best"
    local name=python$best_version
    [ "$candidate" != python3 ] || name=python3
    [ "$venv" = venv ] || lack "venv with ensurepip for Python $best_version" "$name-venv"
    [ "$headers" = headers ] || lack "Python.h of Python $best_version" "$name-dev"
}

compiler=""
check_compiler() {
    local candidate
    compiler=""
    for candidate in "${CXX:-}" c++ g++ clang++; do
        [ -n "$candidate" ] || continue
        # Unquoted: CXX may be two words, such as "ccache g++".
        if printf '#include <bit>\n#include <concepts>\n#include <span>\nstatic_assert(std::popcount(7u) == 3);\n' |
            $candidate -std=c++20 -fsyntax-only -x c++ - >/dev/null 2>&1; then
            compiler=$candidate
            return
        fi
    done
    lack "a C++20 compiler" g++
}

# The Java that Spark would take: JAVA_HOME's if that is set, else the first on the PATH.
check_java() {
    local java=java version=""
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    version=$("$java" -version 2>&1 | sed -n 's/^[^"]* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    [ "${version:-0}" -lt $JAVA_VERSION_MIN ] || return
    if [ -n "${JAVA_HOME:-}" ]; then    # installing a package would not change it
        problem "Java $JAVA_VERSION_MIN or newer in JAVA_HOME, which is $JAVA_HOME" "let JAVA_HOME name one, or unset it"
    else
        lack "Java $JAVA_VERSION_MIN or newer" "$(java_package)"
    fi
}

# Debian up to 12 and Ubuntu before 24.04 name the version; their default may be older, that of later ones is newer, and
# these no longer have version 17.
java_package() {
    local system release
    # shellcheck source=/dev/null
    read -r system release < <(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-99}")
    case ${system:-} in
        debian) [ "${release%%.*}" -gt 12 ] ;;
        ubuntu) [ "${release%%.*}" -ge 24 ] ;;
        *) false ;;
    esac && echo default-jre-headless || echo openjdk-17-jre-headless
}

check_nats() {
    command -v nats-server /usr/sbin/nats-server >/dev/null || lack "nats-server" nats-server
}

check_chromium() {
    command -v chromium >/dev/null || lack "chromium" chromium
}

check_xmlsec1() {
    command -v xmlsec1 >/dev/null || lack "xmlsec1" xmlsec1
}

check_npm() { :; }    # nothing is installed for it, see npm_packages

npm_packages() {    # clients in JavaScript for the tests, as tests/npm/package-lock.json has them, with hashes
    command -v npm >/dev/null || return 0
    [ -d build/npm/node_modules ] && cmp -s tests/npm/package-lock.json build/npm/package-lock.json && return 0
    rm -rf build/npm
    mkdir -p build/npm && cp tests/npm/package.json tests/npm/package-lock.json build/npm/ || return 0
    (cd build/npm && timeout 120 npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) && return 0
    say "the packages of tests/npm could not be installed: tests will say what they leave out"
    rm -rf build/npm
}

check_maven() { :; }    # nothing is installed for it, see maven_packages

maven_packages() {    # Java programs that the tests start, as tests/maven/pom.xml has them; Maven checks what it fetches
    command -v mvn >/dev/null || return 0
    [ -d build/maven ] && cmp -s tests/maven/pom.xml build/maven/pom.xml && return 0
    rm -rf build/maven
    mkdir -p build/maven
    (cd tests/maven && timeout 300 mvn --batch-mode --quiet --strict-checksums dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$OLDPWD/build/maven") >build/maven.log 2>&1 &&
        cp tests/maven/pom.xml build/maven/ && return 0
    say "the programs of tests/maven could not be fetched: tests will say what they leave out"
    rm -rf build/maven
}

check_fuzzer() {
    local version probe found=no
    probe=$(mktemp)    # linking is the test: clang may be installed without the library
    printf '#include <cstddef>\nextern "C" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) { return 0; }\n' |
        clang++ -std=c++20 -fsanitize=fuzzer,address -x c++ - -o "$probe" >/dev/null 2>&1 && found=yes
    rm -f "$probe"
    [ $found = no ] || return 0
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    lack "clang with libFuzzer" clang g++ "libclang-rt-${version:-14}-dev"
}

check_debootstrap() {
    command -v debootstrap /usr/sbin/debootstrap >/dev/null || lack "debootstrap" debootstrap
}

# ---- what to do about the answers ----

join() {    # join ", " a b c
    local between=$1 text=${2:-}
    shift 2
    while [ $# -gt 0 ]; do text+=$between$1; shift; done
    printf '%s' "$text"
}

examine() {
    lacks=() packages=() problems=() remedies=() indispensable=0
    local check before
    for check in "$@"; do
        before=$((${#lacks[@]} + ${#problems[@]}))
        "check_${check#maybe-}"
        [[ $check == maybe-* ]] || indispensable=$((indispensable + ${#lacks[@]} + ${#problems[@]} - before))
    done
    [ ${#lacks[@]} -eq 0 ] && [ ${#problems[@]} -eq 0 ]
}

install_line() { join " " apt-get install -y --no-install-recommends "${packages[@]}"; }

# The one line, and status 2.
refuse() {
    local line remedy
    line="missing: $(join ", " "${lacks[@]+"${lacks[@]}"}" "${problems[@]+"${problems[@]}"}")"
    for remedy in "${remedies[@]+"${remedies[@]}"}"; do line+="; $remedy"; done
    if [ ${#packages[@]} -gt 0 ]; then
        if ! command -v apt-get >/dev/null; then
            line+="; install what Debian calls: $(join " " "${packages[@]}")"
        elif [ "$(id -u)" = 0 ]; then
            line+="; run: $(install_line)"
        else
            line+="; run as root: $(install_line)"
        fi
    fi
    say "$line" >&2
    exit 2
}

may_install() {
    [ ${#packages[@]} -gt 0 ] && [ ${#problems[@]} -eq 0 ] && [ "$(id -u)" = 0 ] && [ "${TREECAST_NO_APT:-}" != 1 ] &&
        command -v apt-get >/dev/null
}

apt_install() {
    local line
    line=$(install_line)
    # A system without package lists (most containers) has to fetch them first; one with outdated lists fails and is retried.
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || line="apt-get update && $line"
    export DEBIAN_FRONTEND=noninteractive
    say "$line"
    attempt "installing system packages" bash -c "$line" && return
    [[ $line == "apt-get update"* ]] && return 1
    line="apt-get update && $line"
    say "$line"
    attempt "installing system packages" bash -c "$line"
}

# ---- steps: quiet, logged, with progress beyond two seconds ----

child=""
# shellcheck disable=SC2317
stop() { [ -z "$child" ] || kill -- "-$child" 2>/dev/null; say "interrupted" >&2; exit 130; }
trap stop INT TERM HUP

# "7 of 22 files" while ninja compiles: its log gains a line for each file, and what it read at first says how many there are.
files_built() {
    local home built=0 all
    for home in build/cp3*; do
        [ "$home/.ninja_log" -nt build/setup.began ] || continue
        all=$(grep -c '^build [^ ]*\.\(o\|gch\):' "$home/build.ninja" 2>/dev/null)
        built=$(find "$home/CMakeFiles" \( -name '*.o' -o -name '*.gch' \) -newer build/setup.began 2>/dev/null | wc -l)
        [ "$built" -eq 0 ] || printf ', %d of %d files built' "$built" "${all:-0}"
        return
    done
}

attempt() {    # attempt "words" command…: its exit status
    local words=$1 began=$SECONDS reported=-1 passed status
    shift
    printf -- '---- %s: %s\n' "$words" "$*" >>"$LOG"
    : >build/setup.began
    set -m    # a process group of its own, so that an interruption reaches the compilers too
    "$@" >>"$LOG" 2>&1 </dev/null &
    child=$!
    set +m
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.1
        passed=$((SECONDS - began))
        [ $passed -ge 2 ] || continue
        if [ -t 1 ]; then
            [ $passed -eq $reported ] || printf '\rtreecast set-up: %s … %d s%s' "$words" $passed "$(files_built)"
            reported=$passed
        elif [ $reported -lt 0 ] || [ $passed -ge $((reported + 30)) ]; then
            say "$words … $passed s$(files_built)"
            reported=$passed
        fi
    done
    wait "$child"
    status=$?
    child=""
    if [ -t 1 ] && [ $reported -ge 0 ]; then printf '\n'; fi
    return $status
}

# no_connection SERVER PATTERN REMEDY: a problem, if a line of the log that fits says that a server cannot be reached.
no_connection() {
    local line
    line=$(grep -E "$2" "$LOG" | tail -n 1)
    [ -n "$line" ] || return
    line=$(sed -nE "s/.*(\[Errno -?[0-9]+\] |\([0-9]+: )([A-Z][A-Za-z -]+).*/: \2/p" <<<"$line")
    problem "a connection to $1$line" "$3; the whole log is in $LOG"
}

step() {
    attempt "$@" && return
    lacks=() packages=()
    no_connection "the package index" 'Retry\(total=0,|Max retries exceeded|Read timed out' \
        "packages come from PyPI: connect this machine, or let PIP_INDEX_URL name a mirror" && refuse
    tail -n 40 "$LOG" >&2
    say "$1 failed; the whole log is in $LOG" >&2
    exit 1
}

# requirements.lock is for this platform only; elsewhere the ranges of pyproject.toml apply.
PLATFORM='import platform, sys; print(sys.implementation.name, "%d.%d" % sys.version_info[:2], sys.platform, platform.machine())'
locked() {
    [ -f requirements.lock ] && [ "$("$VENV/bin/python" -I -c "$PLATFORM" 2>/dev/null)" = "cpython 3.11 linux x86_64" ]
}

build_treecast() { "$VENV/bin/python" -m pip install --quiet --no-build-isolation --no-deps --editable .; }

# The packages, fetched and unpacked on one core while the others compile.
install_and_build() {
    local packages built
    "$VENV/bin/python" -m pip install --quiet --require-hashes --no-build-isolation -r requirements.lock &
    packages=$!
    build_treecast
    built=$?
    wait "$packages" && return $built
}

# What builds treecast, and sdists, comes first, with hashes: pip would fetch it unchecked for an isolated build.
install_packages() {
    local pip=("$VENV/bin/python" -m pip install --quiet) wanted
    local first='cmake\|nanobind\|ninja\|packaging\|pathspec\|scikit-build-core\|setuptools\|wheel'
    if locked; then
        sed -n "/^\($first\)==/,/[^\\\\]\$/p" requirements.lock >build/requirements-build.lock
        step "installing packages from PyPI" "${pip[@]}" --require-hashes -r build/requirements-build.lock
        step "installing packages, building treecast" install_and_build
    else
        say "requirements.lock is for Python 3.11 on Linux x86-64: installing by the ranges of pyproject.toml, without hashes"
        mapfile -t wanted < <("$VENV/bin/python" tools/lock.py ranges)
        step "installing packages from PyPI" "${pip[@]}" "${wanted[@]}"
        step "building treecast" build_treecast
    fi
}

make_venv() {
    local name
    if [ ! -f "$STAMP" ] || [ "$(stamp_line 1)" != "$(pwd -P)" ] || ! "$VENV/bin/python" -c '' 2>/dev/null; then
        rm -rf "$VENV"
        say "the first time takes two to five minutes: packages from PyPI, and about 100 s of compiling, shared by all cores"
        step "making $VENV" "$python" -m venv "$VENV"
    fi
    export CXX=$compiler
    if [ "$(stamp_line 2)" != "$(packages_wanted)" ]; then
        rm -f "$STAMP"
        install_packages
    else
        step "building treecast" build_treecast
    fi
    # mypy reads the sources, so it needs the generated stubs next to them. (They were one file, _native.pyi, once.)
    rm -rf src/treecast/_native src/treecast/_native.pyi
    for name in "$VENV"/lib/python*/site-packages/treecast/_native; do cp -r "$name" src/treecast/_native; done
    fingerprint >"$STAMP.new" && mv "$STAMP.new" "$STAMP"
    # Root in somebody else's checkout: keep it usable for its owner.
    if [ "$(id -u)" = 0 ] && [ "$(stat -c %u .)" != 0 ]; then
        chown -R --reference=. "$VENV" build src/treecast/_native
    fi
}

lock() {
    mkdir -p build
    exec 9>build/setup.lock
    flock -n 9 && return
    say "waiting for another set-up of this checkout"
    flock 9
}

checks=("$@")
if ! current; then
    read -ra checks <<<"$CHECKS"
    checks+=("$@")
fi
if ! examine "${checks[@]+"${checks[@]}"}"; then
    if may_install; then
        lock
        : >"$LOG"
        installed=yes
        apt_install || installed=no    # the package that failed may not be needed: check again
        hash -r
        if ! examine "${checks[@]}" && [ $indispensable -gt 0 ]; then
            no_connection "the package server" "Temporary failure resolving|Could not (resolve|connect)|[Uu]nable to connect" \
                "connect this machine" || [ $installed = yes ] || tail -n 20 "$LOG" >&2
            refuse
        fi
    elif [ $indispensable -gt 0 ]; then
        refuse
    fi
fi
[[ " $* " != *" maybe-npm "* ]] || npm_packages
[[ " $* " != *" maybe-maven "* ]] || maven_packages
current && exit 0
lock
current && exit 0
: >"$LOG"
make_venv

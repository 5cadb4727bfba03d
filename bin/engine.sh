# Gives the tests a docker engine: Debian's, started when none answers and stopped after them. Sourced by bin/test after
# bin/setup.sh. Where this machine can have one, a test that lacks it fails (NEMESIS_TESTS_NEED) instead of being skipped.
# The image is built here rather than by the first test that needs it: it takes longer than a test may.

engine_pid=
engine_log=

engine_answers() {
    "$venv/bin/python" -c 'import docker; docker.DockerClient("unix:///var/run/docker.sock", timeout=10).ping()' >/dev/null 2>&1
}

need_engine() {
    NEMESIS_TESTS_NEED=docker
    export NEMESIS_TESTS_NEED
}

ensure_image() {
    PYTHONPATH=$root "$venv/bin/python" -m nemesis image build >/dev/null || say "no image for containers: their tests will fail"
}

ensure_engine() {
    [ "$(id -u)" = 0 ] || { say "no root: the tests of --cluster docker will be skipped"; return 0; }
    if engine_answers; then
        need_engine
        ensure_image
        return 0
    fi
    command -v dockerd >/dev/null 2>&1 || debian_install docker.io mmdebstrap ||
        { say "no docker engine, and no Debian to install it from: the tests of --cluster docker will be skipped"; return 0; }
    need_engine
    if [ -d /run/systemd/system ]; then
        run_quietly "the start of the docker engine" systemctl start docker
    else
        engine_log=$(mktemp) || fail "cannot make a temporary file"
        say "starting dockerd for the tests"
        dockerd >"$engine_log" 2>&1 </dev/null &
        engine_pid=$!
        trap stop_engine EXIT
    fi
    waited=0
    until engine_answers; do
        waited=$((waited + 1))
        if [ "$waited" -gt 60 ] || { [ -n "$engine_pid" ] && ! kill -0 "$engine_pid" 2>/dev/null; }; then
            [ -n "$engine_log" ] && tail -n 15 "$engine_log" >&2
            say "the docker engine does not answer: its tests will fail"
            return 0
        fi
        sleep 1
    done
    ensure_image
}

stop_engine() {
    [ -n "$engine_pid" ] || return 0
    kill "$engine_pid" 2>/dev/null
    wait "$engine_pid" 2>/dev/null
    rm -f "$engine_log"
    engine_pid=
}

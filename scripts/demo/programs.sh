# The programs that ./demo starts, how it waits, and how it ends.
# shellcheck shell=bash

declare -A pids=()

# start NAME NODE COMMAND...: in the background, what it prints in files.
start() {
    local name=$1 node=$2
    shift 2
    ip netns exec "$net-$node" "$@" > "$directory/$name.out" 2> "$directory/$name.log" \
        < /dev/null &
    pids[$name]=$!
}

is_running() {
    kill -0 "${pids[$1]}" 2> /dev/null
}

# Ends what was started under this name and waits until it has ended.
stop() {
    local pid=${pids[$1]:-} tries
    [ -n "$pid" ] || return 0
    kill "$pid" 2> /dev/null
    for tries in $(seq 50); do
        is_running "$1" || break
        sleep 0.1
    done
    kill -9 "$pid" 2> /dev/null
    wait "$pid" 2> /dev/null
    unset "pids[$1]"
}

# All of them at once: one after the other, some that linger would take minutes.
stop_all() {
    local name tries
    signal_all TERM
    for tries in $(seq 50); do
        any_is_running || break
        sleep 0.1
    done
    signal_all KILL
    # Bash tells of killed programs as soon as it notices them.
    wait "${pids[@]}" 2> /dev/null
    for name in "${!pids[@]}"; do
        stop "$name"
    done
}

signal_all() {
    local name
    for name in "${!pids[@]}"; do
        kill -s "$1" "${pids[$name]}" 2> /dev/null
    done
}

any_is_running() {
    local name
    for name in "${!pids[@]}"; do
        is_running "$name" && return
    done
    return 1
}

# wait_for WHAT COMMAND...: until the command succeeds.
wait_for() {
    local what=$1 tries
    shift
    for tries in $(seq 100); do
        "$@" 2> /dev/null && return
        pause 0.1
    done
    progress_end
    echo "$what did not start:"
    cat "$directory"/*.log
    exit 1
}

# progress TEXT [SECONDS]: shows what is going on; one line that changes on a terminal.
progress() {
    if [ -t 1 ]; then
        printf '\r\033[K%s' "$1"
    elif [ "$1" != "${last_progress:-}" ] && [ $((SECONDS % 5)) = 0 ]; then
        echo "$1"
        last_progress=$1
    fi
    pause "${2:-1}"
}

progress_end() {
    [ -t 1 ] && printf '\r\033[K'
}

# Sleeps so that a signal is heard at once.
pause() {
    sleep "$1" &
    sleeper=$!
    wait "$sleeper"
    sleeper=
}

# Named before it is made, so that a signal in between does not lose it.
make_directory() {
    directory=${TMPDIR:-/tmp}/trackway-demo.$$
    # Gateways, which are root no more, have to get through.
    mkdir -m 711 "$directory" || { directory= && exit 1; }
}

clean_up() {
    local status=$?
    # A child that a signal meets before it has become another program still has our traps.
    [ "$BASHPID" = "$worker" ] || return
    trap '' TERM
    trap - EXIT
    progress_end
    [ -z "${sleeper:-}" ] || kill "$sleeper" 2> /dev/null
    remove_chain
    [ -n "${directory:-}" ] && rm -rf "$directory"
    exit "$status"
}

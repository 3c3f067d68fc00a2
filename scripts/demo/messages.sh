# The fifth part of ./demo: four hosts on a combat net radio, whose programs send each other messages.
# shellcheck shell=bash

tactical_hosts=4

describe_messages() {
    # Of each host: the mean time from one message to the next.
    tactical_gaps=(60 30 15) tactical_seconds=80 tactical_drain=40
    if $is_quick; then
        tactical_gaps=(30 15) tactical_seconds=60 tactical_drain=15
    fi
    tactical_ways=(tcp udp sar)
    local what="messages
of 128 octets, one in four of 1 kB, to a random other one, at random times, by TCP, by UDP and by S/R. Each of these
ways has a net of its own at each load, so that all go on at the same time, for $((tactical_seconds + tactical_drain)) s"
    [ "$world" = real ] || what="messages
of 128 octets to random other ones, at random times, for 30 minutes: by TCP, by UDP and by S/R"
    description="Four hosts on a radio net of 16 kbit/s (SINCGARS, MIL-STD-188-220), in reach of each other. Each sends $what."
}

run_messages_real() {
    mkdir -p "$out" || exit 1
    make_tactical
    send_messages
    remove_chain
    told print_tactical_table
}

# each_net COMMAND...: for every load and every way, with the gap, the way, the name of the net and the number of its first
# node.
each_net() {
    local gap way place=0
    for gap in "${tactical_gaps[@]}"; do
        for way in "${tactical_ways[@]}"; do
            "$@" "$gap" "$way" "$way-$gap" $place
            place=$((place + tactical_hosts))
        done
    done
}

make_tactical() {
    hops=$((${#tactical_gaps[@]} * ${#tactical_ways[@]} * tactical_hosts - 1))
    progress "$((hops + 1)) hosts on $(((hops + 1) / tactical_hosts)) nets" 0
    add_silent_namespace air
    each_net make_net
}

# What kernels say by IPv6 would be traffic.
add_silent_namespace() {
    ip netns add "$net-$1"
    ip netns exec "$net-$1" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
        net.ipv6.conf.default.disable_ipv6=1
    ip -n "$net-$1" link set dev lo up
}

make_net() {
    local place=$4 node
    for node in $(seq 0 $((tactical_hosts - 1))); do
        add_silent_namespace $((place + node))
        join $((place + node)) cnr0 air "n$((place + node))"
        ip -n "$net-$((place + node))" link set dev cnr0 mtu 576
        ip -n "$net-$((place + node))" address add "10.128.0.$((node + 1))/24" dev cnr0
    done
}

tactical_scenario() {
    cat << END
nodes = ["h0", "h1", "h2", "h3"]
duration = "$((tactical_seconds + tactical_drain))s"

[[net]]
preset = "sincgars-16k"
END
}

# The same messages by all ways.
send_messages() {
    local began total=$((tactical_seconds + tactical_drain))
    each_net start_net
    each_net wait_for_net
    each_net start_gateways
    # By the clock of /proc/uptime, when all programs are there.
    tactical_begin=$(awk '{ print $1 + 5 }' /proc/uptime)
    each_net start_hosts
    began=$SECONDS
    while any_host_is_running; do
        progress "messages for $((SECONDS - began)) of $((total + 5)) s"
    done
    tactical_late=0
    each_net stop_net
}

start_net() {
    local name=$3 place=$4 node files joins=()
    tactical_scenario > "$directory/$name.toml"
    files=(--record "$directory/$name.jsonl" --timeline "$out/messages-$name.svg")
    for node in $(seq 0 $((tactical_hosts - 1))); do
        joins+=(--join "h$node=n$((place + node))")
    done
    start "air-$name" air "$trackway" air "$directory/$name.toml" --seed $seed --json \
        "${files[@]}" "${joins[@]}"
}

wait_for_net() {
    wait_for "the net" grep -q joined "$directory/air-$3.log"
}

# Where messages go by S/R, each host has a gateway.
start_gateways() {
    local place=$4 node
    [ "$2" = sar ] || return 0
    for node in $(seq 0 $((tactical_hosts - 1))); do
        start_gateway $((place + node)) << END
[sar]
listen = ["10.128.0.$((node + 1)):1624"]
store = "$directory/store$((place + node))"
socket = "$directory/run$((place + node))/sar"
END
    done
    for node in $(seq 0 $((tactical_hosts - 1))); do
        wait_for "the gateway" test -S "$directory/run$((place + node))/sar"
    done
}

start_hosts() {
    local gap=$1 way=$2 name=$3 place=$4 node
    for node in $(seq 0 $((tactical_hosts - 1))); do
        TRACKWAY=$trackway TRACKWAY_SOCKET=$directory/run$((place + node))/sar start "$name-$node" $((place + node)) python3 -u scripts/demo/messages.py host \
            "$way" "$node" $tactical_hosts "$gap" "$tactical_begin" \
            $tactical_seconds $tactical_drain $seed
    done
}

stop_net() {
    local node late
    for node in $(seq 0 $((tactical_hosts - 1))); do
        stop "$3-$node"
        stop "gateway$(($4 + node))"
    done
    stop "air-$3"
    late=$(numbers_of late_longest_s < "$directory/air-$3.out")
    tactical_late=$(LC_ALL=C awk -v a="$tactical_late" -v b="${late:-0}" \
        'BEGIN { print (a > b * 1000) ? a : b * 1000 }')
}

any_host_is_running() {
    local name
    for name in "${!pids[@]}"; do
        [[ $name = air-* || $name = gateway* ]] || ! is_running "$name" || return 0
    done
    return 1
}

title_of() {
    case $1 in
        tcp) echo "  TCP, a connection each" ;;
        udp) echo "  UDP, a datagram each" ;;
        sar) echo "  S/R, trackway send" ;;
    esac
}

# load GAP: what all hosts together send.
load() {
    echo "a message every $(interval "$1") s"
}

interval() {
    LC_ALL=C awk -v gap="$1" -v hosts=$tactical_hosts 'BEGIN { printf "%.3g", gap / hosts }'
}

print_tactical_table() {
    local loudest=${tactical_gaps[-1]}
    progress_end
    echo
    python3 scripts/demo/messages.py head
    each_net print_net
    echo
    echo "Delays are from the program that sends to the one that receives: half of all messages, and 90 % of all, had arrived"
    echo "after so long. Air used is the time for which somebody transmitted; a message is that for each that arrived."
    [ -z "${tactical_late:-}" ] ||
        LC_ALL=C printf 'What happened on the nets was late by at most %.0f ms.\n' "$tactical_late"
    [ ! -e "$out/messages-tcp-$loudest.svg" ] ||
        echo "Who transmitted when, at the highest load by TCP: $out/messages-tcp-$loudest.svg; the others are beside it."
}

print_net() {
    local gap=$1 way=$2 name=$3 node logs=() total=$((tactical_seconds + tactical_drain))
    [ "$way" != "${tactical_ways[0]}" ] || load "$gap"
    if [ -e "$directory/$name.json" ]; then
        python3 scripts/demo/messages.py simulated "$(title_of "$way")" $total \
            "$directory/$name.json"
        return
    fi
    for node in $(seq 0 $((tactical_hosts - 1))); do
        logs+=("$directory/$name-$node.out")
    done
    python3 scripts/demo/messages.py table "$(title_of "$way")" $total "$directory/$name.jsonl" \
        "${logs[@]}"
}

# Messages of 128 octets by the simulator's own TCP and S/R, for longer.
run_messages_simulated() {
    tactical_seconds=1800 tactical_drain=300
    each_net simulate_net
    told print_tactical_table
}

simulate_net() {
    progress "$(load "$1"): simulated" 0
    {
        tactical_scenario
        printf '[messages]\nover = "%s"\npayload = 128\ninterval = "%ss"\nstop = "%ss"\n' \
            "$2" "$(interval "$1")" $tactical_seconds
    } > "$directory/tactical.toml"
    run_scenario tactical $seed
    mv "$directory/report" "$directory/$3.json"
}

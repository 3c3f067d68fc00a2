# The network of ./demo: nodes in a row, each a namespace, joined by cables and emulated links.
# shellcheck shell=bash

net=tw$$

# Node 0 to node $hops. The lossy hops lead through "air", which holds the emulators, so that the
# nodes see nothing but a cable; all others are cables.
make_chain() {
    local node hop
    for node in $(seq 0 $hops) air; do
        ip netns add "$net-$node"
        ip netns exec "$net-$node" sysctl -qw net.ipv4.ip_forward=1 \
            net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
        ip -n "$net-$node" link set dev lo up
    done
    for hop in $(seq 0 $((hops - 1))); do
        if is_lossy "$hop"; then
            join "$hop" right air "a$hop"
            join $((hop + 1)) left air "b$hop"
        else
            join "$hop" right $((hop + 1)) left
        fi
        ip -n "$net-$hop" address add "10.77.$hop.1/24" dev right
        ip -n "$net-$((hop + 1))" address add "10.77.$hop.2/24" dev left
        know "$hop" right $((hop + 1)) left "10.77.$hop.2"
        know $((hop + 1)) left "$hop" right "10.77.$hop.1"
    done
    for node in $(seq 0 $hops); do
        for hop in $(seq 0 $((hops - 1))); do
            if [ "$hop" -gt "$node" ]; then
                route "$node" "$hop" "10.77.$node.2"
            elif [ "$hop" -lt $((node - 1)) ]; then
                route "$node" "$hop" "10.77.$((node - 1)).1"
            fi
        done
    done
}

remove_chain() {
    stop_all
    local node
    for node in $(seq 0 "${hops:-0}") air; do
        # What was started a moment before a signal is not in the list yet.
        ip netns pids "$net-$node" 2> /dev/null | xargs -r kill 2> /dev/null
        ip netns delete "$net-$node" 2> /dev/null
    done
}

is_lossy() {
    [[ " ${lossy_hops[*]} " = *" $1 "* ]]
}

# join NODE INTERFACE OTHER_NODE OTHER_INTERFACE
join() {
    ip -n "$net-$1" link add name "$2" type veth peer name "$4" netns "$net-$3"
    ip -n "$net-$1" link set dev "$2" up
    ip -n "$net-$3" link set dev "$4" up
}

# Tells a node its neighbour's address, so that only the programs' packets are counted.
know() {
    local mac
    mac=$(ip netns exec "$net-$3" cat "/sys/class/net/$4/address")
    ip -n "$net-$1" neigh add "$5" lladdr "$mac" dev "$2" nud permanent
}

# route NODE HOP NEIGHBOUR: to the addresses of a hop; whoever has a better way may say so. The
# route chooses the congestion control: a system may keep namespaces from it.
route() {
    ip -n "$net-$1" route add "10.77.$2.0/24" via "$3" metric 100 congctl "$tcp" || exit 1
}

# start_links SEED: fresh links, so that both ways meet the same losses and nothing else is counted.
start_links() {
    local hop seed=$1
    for hop in "${lossy_hops[@]}"; do
        start "link$hop" air "$trackway" link "a$hop" "b$hop" --rate $rate --delay $delay \
            --loss $loss --seed $((seed + hop)) --json
    done
    for hop in "${lossy_hops[@]}"; do
        wait_for "the link emulator" grep -q joined "$directory/link$hop.log"
    done
}

# Ends the links and adds up the IP packets that were sent on them.
stop_links() {
    local hop
    for hop in "${lossy_hops[@]}"; do
        stop "link$hop"
    done
    for hop in "${lossy_hops[@]}"; do
        numbers_of sent_ip < "$directory/link$hop.out"
    done | sum > "$directory/packets"
}

# start_gateway NODE: the configuration is read from standard input.
start_gateway() {
    { echo 'log = "warn"' && cat; } > "$directory/node$1.toml"
    start "gateway$1" "$1" "$trackway" run "$directory/node$1.toml"
}

gateway_status() {
    # Faults are exit status 3, and the status is told all the same.
    ip netns exec "$net-$1" "$trackway" status --json || [ $? -eq 3 ]
}

# status NODE NAME: one of the gateway's counters.
status() {
    gateway_status "$1" | numbers_of "$2"
}

# numbers_of NAME: those that have this name in the JSON from standard input.
numbers_of() {
    grep -oE "\"$1\": *[0-9.]+" | sed 's/.*: *//'
}

sum() {
    awk '{ sum += $0 } END { print sum + 0 }'
}

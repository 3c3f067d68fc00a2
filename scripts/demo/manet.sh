# The fourth part of ./demo: a node that moves past the relays of a MANET and loads from a wired server.
# shellcheck shell=bash

# The node that moves, its relays and the gateway; then the server behind that.
manet_nodes=5 manet_gateway=4 manet_server=5

describe_manet() {
    hops=$manet_server
    octets=2000000 limit=50
    with="with HBH"
    if $is_quick; then
        octets=600000 limit=25
    fi
    description="Five nodes with radios of 2 Mbit/s, one of which moves away from the gateway and back; OLSR finds the routes; TCP is $tcp."
}

run_manet_real() {
    mkdir -p "$out" || exit 1
    head -c "$octets" /dev/urandom > "$directory/file"
    manet_scenario > "$directory/manet.toml"
    make_manet
    roam plain
    roam manet
    remove_chain
    draw_manet
    told print_manet_table
}

run_manet_simulated() {
    mkdir -p "$out" || exit 1
    simulate_roaming plain
    simulate_roaming manet
    manet_scenario > "$directory/manet.toml"
    draw_manet
    told print_manet_table
}

# manet_scenario [KEYS]: n0 is one hop from the gateway at first, then up to four, then one again. With
# --quick it goes two hops far. What is not radio and motion is for the simulator alone.
manet_scenario() {
    local away=700 back=24s
    $is_quick && away=340 back=14s
    cat << END
nodes = ["n0", "n1", "n2", "n3", "n4", "server"]
duration = "${limit}s"
routing = "follow"
${1:-}

[defaults.tcp]
algorithm = "${algorithms[$tcp]:-cubic}"
send-buffer = 4_194_304
receive-buffer = 3_145_728

[[radio]]
stations = ["n0", "n1", "n2", "n3", "n4"]
queue-discipline = "routing-first"

[node.n0]
position = [100, 100]
motion = [{ at = "6s", to = [$away, 100], speed = 40 }, { at = "$back", to = [100, 100], speed = 40 }]

[node.n1]
position = [600, 0]
motion = [{ at = "6s", to = [600, -40], speed = 3 }]

[node.n2]
position = [400, 0]
motion = [{ at = "6s", to = [400, 40], speed = 3 }]

[node.n3]
position = [200, 0]
motion = [{ at = "6s", to = [200, -40], speed = 3 }]

[node.n4]
position = [0, 0]

[[link]]
between = ["n4", "server"]

[[tcp]]
from = "server"
to = "n0"
start = "5s"
octets = $octets
END
}

# Each node's wlan0 leads to "air", where the other end has the node's name in the scenario.
make_manet() {
    local node
    for node in $(seq 0 $manet_server) air; do
        ip netns add "$net-$node"
        ip netns exec "$net-$node" sysctl -qw net.ipv4.ip_forward=1 \
            net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
        ip -n "$net-$node" link set dev lo up
    done
    for node in $(seq 0 $((manet_nodes - 1))); do
        join "$node" wlan0 air "n$node"
        ip -n "$net-$node" address add "10.128.0.$((node + 1))/32" dev wlan0
    done
    join $manet_gateway eth0 $manet_server eth0
    ip -n "$net-$manet_gateway" address add 10.77.0.1/24 dev eth0
    ip -n "$net-$manet_server" address add 10.77.0.2/24 dev eth0
    # The route chooses the congestion control: a system may keep namespaces from it.
    ip -n "$net-$manet_server" route add 10.128.0.0/16 via 10.77.0.1 congctl "$tcp" || exit 1
}

# roam MODE: the same motion and the same file for each.
roam() {
    local mode=$1 node size retransmissions before extra_before began began_at
    start air air "$trackway" air "$directory/manet.toml" --join '*=*' --seed $seed --json
    wait_for "the air" grep -q joined "$directory/air.log"
    began_at=$SECONDS
    for node in $(seq 0 $((manet_nodes - 1))); do
        start_gateway "$node" < <(router "$mode" "$node")
    done
    start web $manet_server python3 -u -m http.server --directory "$directory" 8000
    wait_for "the web server" listens $manet_server 8000
    wait_for "the route to the server" may_reach_server
    [ "$mode" = plain ] || wait_for "HBH" has_any_neighbour
    retransmissions=$(counter $manet_server Tcp RetransSegs)
    before=$(of_routers routing_routes_set)
    extra_before=$(extra_of "$mode")
    rm -f "$directory/download"
    while [ $((SECONDS - began_at)) -lt 5 ]; do
        progress "$(title "$mode"): the routes settle"
    done

    start stalls 0 python3 -uc "$stall_watch" "$directory/download"
    began=$SECONDS
    start curl 0 curl -sSN --max-time $limit -o "$directory/download" \
        -w '%{time_total} %{size_download}\n' "http://10.77.0.2:8000/file"
    while is_running curl; do
        size=$(size_of "$directory/download")
        progress "$(title "$mode"): curl has $size of $octets octets after $((SECONDS - began)) s"
    done
    stop stalls
    keep_curl "$mode"
    keep "$mode" retransmissions $(($(counter $manet_server Tcp RetransSegs) - retransmissions))
    keep "$mode" routes $(($(of_routers routing_routes_set) - before))
    [ "$mode" = plain ] || keep "$mode" extra $(($(extra_of "$mode") - extra_before))
    stop web
    for node in $(seq 0 $((manet_nodes - 1))); do
        stop "gateway$node"
    done
    stop air
    keep "$mode" packets "$(numbers_of data < "$directory/air.out" | sum)"
    keep "$mode" given_up "$(numbers_of given_up < "$directory/air.out" | sum)"
}

# router MODE NODE: its configuration.
router() {
    cat << END
[routing]
protocol = "olsr"
interfaces = ["wlan0"]
hello-interval = "500ms"
neighbour-hold = "1500ms"
tc-interval = "1s"
topology-hold = "5s"
hna-interval = "1s"
hna-hold = "5s"
max-jitter = "100ms"
END
    [ "$2" != $manet_gateway ] || echo 'attached = ["10.77.0.0/24"]'
    # Bulk that waits in a long queue of a slow radio makes repeated segments late.
    [ "$1" = plain ] || printf '[hbh]\ninterfaces = ["wlan0"]\nqueue = 50\n'
}

may_reach_server() {
    ip netns exec "$net-0" ping -n -c 1 -W 1 10.77.0.2 > /dev/null
}

has_any_neighbour() {
    [ "$(status 0 neighbours)" -ge 1 ]
}

# of_routers NAME: a counter of all nodes together.
of_routers() {
    local node
    for node in $(seq 0 $((manet_nodes - 1))); do
        status "$node" "$1"
    done | sum
}

extra_manet() {
    of_routers hbh_data_repeated
}

# Says how often a file did not grow for more than a second, and for how long at most, as soon as it
# changes.
stall_watch='
import os, sys, time
last, size, count, longest = time.monotonic(), 0, 0, 0
is_stalled = False
while True:
    time.sleep(0.02)
    try:
        now = os.stat(sys.argv[1]).st_size
    except FileNotFoundError:
        now = 0
    quiet = time.monotonic() - last
    if now != size:
        last, size, is_stalled = time.monotonic(), now, False
        continue
    if quiet > 1 and not is_stalled:
        is_stalled, count = True, count + 1
    if quiet > longest + 0.1:
        longest = quiet
        print(count, "%.1f" % longest)
'

# The output of curl and the watch.
keep_curl() {
    local time size count longest
    read -r time size < "$directory/curl.out"
    read -r count longest < <(tail -n 1 "$directory/stalls.out")
    keep_load "$1" "$time" "$size"
    keep "$1" stalls "${count:-0}"
    keep "$1" longest "${longest:-0} s"
}

# keep_load MODE SECONDS OCTETS
keep_load() {
    keep "$1" time "$(LC_ALL=C printf '%.1f s' "$2")"
    [ "$3" = "$octets" ] || keep "$1" time "unfinished: $(($3 / 1000)) kB"
    keep "$1" goodput "$(LC_ALL=C awk -v octets="$3" -v time="$2" \
        'BEGIN { if (time > 0) printf "%.0f kbit/s", octets * 8 / time / 1000; else print "-" }')"
}

# simulate_roaming MODE: the same network, routes that are found at once.
simulate_roaming() {
    local mode=$1 time keys=
    tcp_program=TCP
    [ "$mode" = plain ] || keys='hbh = true'
    manet_scenario "$keys" > "$directory/roam.toml"
    progress "$(title "$mode"): simulated" 0
    run_scenario roam $seed
    time=$(sum_of delay_s)
    # An unfinished transfer has no delay.
    [ "$time" != 0 ] || time=$((limit - 5))
    keep_load "$mode" "$time" "$(sum_of octets_received)"
    keep "$mode" retransmissions "$(sum_of retransmissions)"
    keep "$mode" packets "$(numbers_of data < "$directory/report" | sum)"
    keep "$mode" given_up "$(numbers_of given_up < "$directory/report" | sum)"
    [ "$mode" = plain ] || keep "$mode" extra "$(sum_of data_repeated)"
}

# The picture is of the simulator: the same nodes, motion and radio.
draw_manet() {
    progress "the picture" 0
    "$trackway" sim run "$directory/manet.toml" --seed $seed --animate "$out/manet.html" \
        > /dev/null || exit 1
}

print_manet_table() {
    progress_end
    echo
    line "" "routing alone" "$with" ratio
    row "$tcp_program, $(octets_as_text)" time
    row "  goodput" goodput
    # Of some things the simulator does not tell.
    [ -z "${result[plain,stalls]:-}" ] || row "  more than 1 s without an octet" stalls
    [ -z "${result[plain,longest]:-}" ] || row "  longest time without" longest
    row "  TCP retransmissions" retransmissions
    row "  HBH retransmissions" extra
    [ -z "${result[plain,routes]:-}" ] || row "  routes set, all nodes" routes
    row "  frames of data on the air" packets
    row "  packets given up by radios" given_up
    echo
    echo "The same nodes in the simulator, as a picture that moves: $out/manet.html"
}

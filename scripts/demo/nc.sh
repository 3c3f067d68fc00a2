# The second part of ./demo: two networks, and a coded tunnel between their gateways.
# shellcheck shell=bash

describe_nc() {
    description="Two networks, between their gateways 10 Mbit/s, 50 ms and 5 % loss each way; TCP is $tcp."
    # A host and its gateway, the bad link, the other gateway and its host.
    hops=3 lossy_hops=(1)
    rate=10mbit delay=50ms loss=5%
    octets=1000000 downloads=3 limit=60
    udp_octets=1000 udp_rate=1M udp_seconds=10
    with="with the tunnel" extra="sent again and repairs"
    if $is_quick; then
        octets=500000 downloads=1 udp_seconds=2 limit=12
    fi
}

# The gateways are nodes 1 and 2.
start_gateways_nc() {
    local node public
    for node in 1 2; do
        public[node]=$("$trackway" keygen --out "$directory/$node.key") || exit 1
    done
    start_tunnel 1 2 "${public[2]}" 10.77.2.0/24
    start_tunnel 2 1 "${public[1]}" 10.77.0.0/24
    for node in 1 2; do
        wait_for "the tunnel" is_up $node
    done
}

# start_tunnel NODE PEER PEERS_KEY PEERS_NETWORK
start_tunnel() {
    start_gateway "$1" << END
[tunnel]
private-key = "$1.key"
addresses = ["10.99.0.$1/24"]

[[tunnel.peer]]
name = "gateway$2"
public-key = "$3"
endpoint = "10.77.1.$2:51900"
routes = ["10.99.0.$2/32", "$4"]
END
}

is_up() {
    gateway_status "$1" | grep -q '"state": *"up"'
}

# What both gateways have sent besides each packet once.
extra_nc() {
    local node
    for node in 1 2; do
        status "$node" sources_resent
        status "$node" repairs_sent
    done | sum
}

# What a scenario needs for it.
scenario_nc() {
    echo 'tunnel = [{ between = ["1", "2"], behind = [["0"], ["3"]] }]'
}

simulated_extra_nc() {
    echo $(($(sum_of sources_resent) + $(sum_of repairs_sent)))
}

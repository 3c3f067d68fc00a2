# The first part of ./demo: a chain of bad hops, and HBH on every node.
# shellcheck shell=bash

describe_hbh() {
    description="Five nodes in a row, four links of 300 kbit/s, 50 ms and 5 % loss each way; TCP is $tcp."
    hops=4 lossy_hops=(0 1 2 3)
    rate=300kbit delay=50ms loss=5%
    octets=100000 downloads=3 limit=60
    udp_octets=500 udp_rate=100k udp_seconds=10
    with="with HBH" extra="HBH retransmissions"
    if $is_quick; then
        octets=5000 downloads=1 udp_seconds=2 limit=12
    fi
}

# The gateway on every node, with all its neighbours.
start_gateways_hbh() {
    local node interfaces
    for node in $(seq 0 $hops); do
        case $node in
            0) interfaces='"right"' ;;
            "$hops") interfaces='"left"' ;;
            *) interfaces='"left", "right"' ;;
        esac
        start_gateway "$node" << END
[hbh]
interfaces = [$interfaces]
END
    done
    for node in $(seq 0 $hops); do
        # The first and the last have one neighbour.
        wait_for "the gateway" has_neighbours "$node" $((node % hops == 0 ? 1 : 2))
    done
}

has_neighbours() {
    [ "$(status "$1" neighbours)" = "$2" ]
}

# Total retransmissions of all gateways.
extra_hbh() {
    local node
    for node in $(seq 0 $hops); do
        status "$node" hbh_data_repeated
    done | sum
}

# The lines of a scenario for this part.
scenario_hbh() {
    echo 'hbh = true'
}

simulated_extra_hbh() {
    sum_of data_repeated
}

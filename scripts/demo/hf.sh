# The third part of ./demo: curl and ping between two networks that only HF radio joins.
# shellcheck shell=bash

describe_hf() {
    description="Two hosts, between them HF radio of 9600 bit/s in 3 kHz, bit error rate 1e-5, STANAG 5066 and IP over it."
    hf_octets=10000 hf_pings=3 hf_limit=75
    if $is_quick; then
        hf_octets=2000 hf_pings=1 hf_limit=40
    fi
}

# There is nothing to compare with: the radio carries no IP by itself.
run_hf_real() {
    local node
    mkdir -p "$out" || exit 1
    head -c $hf_octets /dev/urandom > "$directory/file"
    hops=1
    for node in 0 1; do
        ip netns add "$net-$node"
        ip netns exec "$net-$node" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1
        ip -n "$net-$node" link set dev lo up
    done
    start_radio
    start_clients 0 0.10.20.31 1 2
    start_clients 1 0.10.20.30 2 1
    for node in 0 1; do
        wait_for "IP and TCP over HF" is_bound $node
    done
    ping_by_radio
    start web 1 python3 -u -m http.server --directory "$directory" 8000
    wait_for "the web server" listens 1 8000
    curl_by_radio plain 10.88.0.2
    curl_by_radio with 10.89.0.2
    stop web
    stop radio
    remove_chain
    print_radio_table
}

# The same radio below our own TCP.
run_hf_simulated() {
    local time
    mkdir -p "$out" || exit 1
    cat > "$directory/hf.toml" << END
nodes = ["a", "b"]
duration = "10min"

[[hf]]
stations = ["a", "b"]
waveform = "9600/short"
channel = "ber:1e-5"

[[tcp]]
from = "b"
to = "a"
octets = $hf_octets
END
    "$trackway" sim run "$directory/hf.toml" --seed $seed --pcap "$out" --json \
        > "$directory/report" || exit 1
    time=$(sum_of delay_s)
    echo
    radio_line "TCP, $((hf_octets / 1000)) KB: whole file" "$(LC_ALL=C printf '%.1f s' "$time")"
    radio_line "  goodput" "$(goodput $hf_octets "$time")"
    echo
    echo "Every frame: $out/hf-0.pcapng (Wireshark)."
}

# Both radios are one program; it listens in either namespace.
start_radio() {
    "$trackway" hf --netns-a "$net-0" --netns-b "$net-1" --speed 9600 --ber 1e-5 --seed $seed --short-numbers \
        --timeline "$out/hf.svg" --capture "$out" --json \
        > "$directory/radio.out" 2> "$directory/radio.log" < /dev/null &
    pids[radio]=$!
    wait_for "the radio" grep -q 'ready' "$directory/radio.log"
}

# start_clients NODE PEERS_NODE_ADDRESS OWN_NUMBER PEERS_NUMBER
#
# Each host has two addresses: TCP to 10.88.0.0/16 goes as IP, TCP to 10.89.0.0/16 by HF-PEP.
start_clients() {
    start_gateway "$1" << END
[ipclient]
addresses = ["10.88.0.$3/32", "10.89.0.$3/32"]

[[ipclient.route]]
node = "$2"
to = ["10.88.0.$4/32", "10.89.0.$4/32"]

[hfpep]
[[hfpep.peer]]
node = "$2"
to = ["10.89.0.$4/32"]
END
}

is_bound() {
    [ "$(gateway_status "$1" | grep -o '"state": *"bound"' | wc -l)" = 2 ]
}

ping_by_radio() {
    local began=$SECONDS
    # One after the other: HF turns round in seconds.
    start ping 0 ping -n -c $hf_pings -i 6 -W 30 10.88.0.2
    while is_running ping && [ $((SECONDS - began)) -lt $hf_limit ]; do
        progress "ping: $(grep -c 'bytes from' "$directory/ping.out") of $hf_pings answered"
    done
    stop ping
    # rtt min/avg/max/mdev = 2744.1/2797.2/2893.2/66.8 ms
    result[ping]=$(LC_ALL=C awk -F'[= /]+' \
        '/^rtt/ { printf "%.1f s (%.1f to %.1f s)", $7 / 1000, $6 / 1000, $8 / 1000 }' \
        "$directory/ping.out")
    result[answers]="$(grep -c 'bytes from' "$directory/ping.out") of $hf_pings"
}

# curl_by_radio WAY ADDRESS
curl_by_radio() {
    local size first time began=$SECONDS
    rm -f "$directory/download"
    start curl 0 curl -sS --max-time $hf_limit -o "$directory/download" \
        -w '%{time_starttransfer} %{time_total} %{size_download}\n' "http://$2:8000/file"
    while is_running curl; do
        size=$(size_of "$directory/download")
        progress "curl: $size of $hf_octets octets after $((SECONDS - began)) s"
    done
    read -r first time size < "$directory/curl.out"
    result[$1,first]=$(LC_ALL=C printf '%.1f s' "$first")
    result[$1,time]=$(LC_ALL=C printf '%.1f s' "$time")
    [ "$size" = $hf_octets ] || result[$1,time]="unfinished: $size octets"
    result[$1,goodput]=$(goodput "$size" "$time")
}

# goodput OCTETS SECONDS
goodput() {
    LC_ALL=C awk -v octets="$1" -v time="$2" \
        'BEGIN { if (time > 0) printf "%.0f bit/s", octets * 8 / time; else print "-" }'
}

print_radio_table() {
    progress_end
    echo
    radio_line "ping, $hf_pings packets: answered" "${result[answers]:--}"
    radio_line "  round trip" "${result[ping]:--}"
    radio_line "transmissions, A and B" "$(of_radio transmissions)"
    radio_line "  frames of data" "$(of_radio data)"
    radio_line "  again, also to fill blocks" "$(of_radio repeats)"
    radio_line "  acknowledgements" "$(of_radio acks)"
    radio_line "time on the air" "$(of_radio on_air_s) s"
    echo
    line "" "TCP over IP client" "HF-PEP" "ratio"
    row "curl, $((hf_octets / 1000)) KB: whole file" time
    row "  first octet of the answer" first
    row "  goodput" goodput
    echo
    echo "Who transmitted when: $out/hf.svg; every frame: $out/a.pcapng, $out/b.pcapng (Wireshark)."
}

radio_line() {
    printf '%-34s %s\n' "$1" "$2"
}

# of_radio NAME: A's number and B's.
of_radio() {
    numbers_of "$1" < "$directory/radio.out" |
        LC_ALL=C awk '{ line = line (NR > 1 ? ", " : "") int($1 * 10 + 0.5) / 10 } END { print line }'
}

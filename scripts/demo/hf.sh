# The third part of ./demo: curl and ping between two networks that only HF radio joins.
# shellcheck shell=bash

describe_hf() {
    hf_octets=10000 hf_pings=3 hf_limit=75 hf_ber=1e-5
    if $is_quick; then
        hf_octets=2000 hf_pings=1 hf_limit=40 hf_ber=0
    fi
    description="Two hosts, between them HF radio of 9600 bit/s in 3 kHz, bit error rate $hf_ber, STANAG 5066 and IP over it."
}

# There is nothing to compare with: the radio carries no IP by itself.
run_hf_real() {
    local node
    mkdir -p "$out" || exit 1
    make_page
    make_certificates
    hops=1
    for node in 0 1; do
        ip netns add "$net-$node"
        ip netns exec "$net-$node" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1
        ip -n "$net-$node" link set dev lo up
    done
    start_radio
    start_clients
    start web 1 python3 -u -m http.server --directory "$directory/www" 8000
    start web-tls 1 python3 -uc "$https_server" "$directory/www" "$directory/far/$page_host"
    wait_for "the web server" listens 1 8000
    wait_for "the web server with TLS" listens 1 8443
    ping_by_radio
    curl_by_radio ip "TCP over IP client" "http://10.88.0.2:8000/page"
    curl_by_radio pep "HF-PEP" "http://10.89.0.2:8000/page"
    curl_by_radio tls "HF-PEP, TLS from end to end" "https://$page_host:8443/page" 10.89.0.2 far
    curl_by_radio proxies "HF-PEP, TLS proxies" "https://$page_host:8443/page" 10.90.0.2 near
    stop web
    stop web-tls
    stop radio
    remove_chain
    told print_radio_table
}

# Words, as pages have them: they can be compressed, but for what TLS has encrypted.
make_page() {
    mkdir "$directory/www"
    head -c $hf_octets LICENSE-APACHE > "$directory/www/page"
}

# An authority for each side: programs trust the near one, the far gateway trusts the far one.
make_certificates() {
    local side
    for side in near far; do
        "$trackway" tls ca "$directory/$side" > "$directory/tls.log" 2>&1 &&
            "$trackway" tls issue "$directory/$side" --san $page_host > "$directory/tls.log" 2>&1 ||
            { cat "$directory/tls.log" && exit 1; }
    done
}

page_host=page.example
https_server='
import functools, http.server, ssl, sys
folder, certificate = sys.argv[1:]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("", 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate + ".crt", certificate + ".key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
'

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
channel = "ber:$hf_ber"

[[tcp]]
from = "b"
to = "a"
octets = $hf_octets
END
    "$trackway" sim run "$directory/hf.toml" --seed $seed --pcap "$out" --json \
        > "$directory/report" || exit 1
    time=$(sum_of delay_s)
    told print_simulated_radio "$time"
}

# print_simulated_radio SECONDS
print_simulated_radio() {
    echo
    radio_line "TCP, $((hf_octets / 1000)) kB: whole file" "$(LC_ALL=C printf '%.1f s' "$1")"
    radio_line "  goodput" "$(goodput $hf_octets "$1")"
    echo
    echo "Every frame: $out/hf-0.pcapng (Wireshark)."
}

# Both radios are one program; it listens in either namespace.
start_radio() {
    "$trackway" hf --netns-a "$net-0" --netns-b "$net-1" --speed 9600 --ber $hf_ber --seed $seed --short-numbers \
        --timeline "$out/hf.svg" --capture "$out" --json \
        > "$directory/radio.out" 2> "$directory/radio.log" < /dev/null &
    pids[radio]=$!
    wait_for "the radio" grep -q 'ready' "$directory/radio.log"
}

# Each host has three addresses: TCP to 10.88.0.0/16 goes as IP, to 10.89.0.0/16 by HF-PEP, and to
# 10.90.0.0/16 by HF-PEP with TLS that ends at the gateways.
start_clients() {
    start_client 0 0.10.20.31 1 2 "" << END
[[rule]]
name = "tls"
to = ["10.90.0.0/16"]
tls = "near"

[[tls]]
name = "near"
role = "server"
certificate = "near/$page_host.crt"
key = "near/$page_host.key"
END
    start_client 1 0.10.20.30 2 1 'tls = "far"' << END
[[tls]]
name = "far"
role = "client"
trust-anchors = "far/ca.crt"
END
    for node in 0 1; do
        wait_for "IP and TCP over HF" is_bound $node
    done
}

# start_client NODE PEERS_NODE_ADDRESS OWN_NUMBER PEERS_NUMBER HFPEP: more is read from standard input.
start_client() {
    cat - <(cat << END
[ipclient]
addresses = ["10.88.0.$3/32", "10.89.0.$3/32", "10.90.0.$3/32"]

[[ipclient.route]]
node = "$2"
to = ["10.88.0.$4/32", "10.89.0.$4/32", "10.90.0.$4/32"]

[hfpep]
$5
[[hfpep.peer]]
node = "$2"
to = ["10.89.0.$4/32", "10.90.0.$4/32"]
END
    ) | start_gateway "$1"
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

# curl_by_radio WAY TITLE URL [ADDRESS AUTHORITY]: the address for the name of the URL, and whom to
# trust for it.
curl_by_radio() {
    local way=$1 title=$2 url=$3 size first time before began more=()
    [ $# = 3 ] || more=(--resolve "$page_host:8443:$4" --cacert "$directory/$5/ca.crt")
    rm -f "$directory/download"
    before=$(octets_to_radio)
    began=$SECONDS
    start curl 0 curl -sS --max-time $hf_limit -o "$directory/download" "${more[@]}" \
        -w '%{time_starttransfer} %{time_total} %{size_download}\n' "$url"
    while is_running curl; do
        size=$(size_of "$directory/download")
        progress "$title: curl has $size of $hf_octets octets after $((SECONDS - began)) s"
    done
    read -r first time size < "$directory/curl.out"
    result[$way,first]=$(LC_ALL=C printf '%.1f s' "$first")
    result[$way,time]=$(LC_ALL=C printf '%.1f s' "$time")
    result[$way,goodput]=$(goodput "$size" "$time")
    wait_for_silence "$title"
    result[$way,octets]=$(($(octets_to_radio) - before))
    cmp -s "$directory/download" "$directory/www/page" ||
        result[$way,time]="unfinished: $size octets"
}

# Lets the radio carry the rest of an exchange: ends of connections and their acknowledgements.
wait_for_silence() {
    local tries
    for tries in $(seq 15); do
        progress "$1: the radio finishes"
        is_silent && break
    done
    progress "$1: the radio finishes"
}

# Whether all connections of curl have ended, at both ends.
is_silent() {
    local node
    for node in 0 1; do
        ip netns exec "$net-$node" ss -Htn '( sport = :8000 or sport = :8443 or dport = :8000 or dport = :8443 )' |
            grep -q . && return 1
        gateway_status $node | grep -q '"waits_for"' && return 1
    done
    return 0
}

# Octets both gateways have given to their nodes: parts of streams, and datagrams with their headers there.
octets_to_radio() {
    local status
    status=$(gateway_status 0 && gateway_status 1)
    echo $(($(numbers_of '((slep|ipclient)_octets_handed|ipclient_headers_octets_after)' <<< "$status" | sum) -
        $(numbers_of ipclient_headers_octets_before <<< "$status" | sum)))
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
    way_line "curl, text of $((hf_octets / 1000)) kB" "first octet" "whole page" goodput "given to HF"
    way ip "http, TCP over IP client"
    way pep "http, HF-PEP"
    way tls "https, HF-PEP, TLS end to end"
    way proxies "https, HF-PEP, TLS proxies"
    echo
    echo "The text is the beginning of LICENSE-APACHE. HF-PEP compresses it, but for what TLS hides; with TLS proxies, TLS"
    echo "ends at the gateway beside curl and begins anew at the other. Given to HF is what both gateways gave their nodes."
    echo
    echo "Who transmitted when: $out/hf.svg; every frame: $out/a.pcapng, $out/b.pcapng (Wireshark)."
}

# way WAY TITLE
way() {
    way_line "$2" "${result[$1,first]}" "${result[$1,time]}" "${result[$1,goodput]}" \
        "${result[$1,octets]} octets"
}

way_line() {
    printf '%-34s %12s %12s %14s %14s\n' "$@"
}

radio_line() {
    printf '%-34s %s\n' "$1" "$2"
}

# of_radio NAME: A's number and B's.
of_radio() {
    numbers_of "$1" < "$directory/radio.out" |
        LC_ALL=C awk '{ line = line (NR > 1 ? ", " : "") int($1 * 10 + 0.5) / 10 } END { print line }'
}

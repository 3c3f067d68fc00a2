# Measures real programs for ./demo, and prints the table.
# shellcheck shell=bash

tcp_program=curl udp_program="iperf3, UDP"

# measure MODE: plain, or the name of a part.
measure() {
    measure_curl "$1"
    measure_udp "$1"
}

# The file goes from the last node to the first.
measure_curl() {
    local mode=$1 number size began=$SECONDS packets=0 retransmissions extra_before
    start web $hops python3 -u -m http.server --directory "$directory" 8000
    wait_for "the web server" listens $hops 8000
    retransmissions=$(counter $hops Tcp RetransSegs)
    extra_before=$(extra_of "$mode")
    : > "$directory/downloads"
    for number in $(seq $downloads); do
        start_links $((seed + 10 * number))
        start curl 0 curl -sS --max-time $limit -o "$directory/download" \
            -w '%{time_total} %{size_download}\n' "http://10.77.$((hops - 1)).2:8000/file"
        while is_running curl; do
            size=$(size_of "$directory/download")
            progress "$(title "$mode"): curl $number of $downloads has $size of $octets octets"
        done
        stop_links
        packets=$((packets + $(cat "$directory/packets")))
        cat "$directory/curl.out" >> "$directory/downloads"
        rm -f "$directory/download"
        # A way this bad has shown what it is worth.
        [ $((SECONDS - began)) -lt $limit ] || break
    done
    retransmissions=$(($(counter $hops Tcp RetransSegs) - retransmissions))
    stop web

    keep_downloads "$mode" "$number" $packets $retransmissions \
        $(($(extra_of "$mode") - extra_before))
}

# Extra packets of the gateways, beyond each packet once.
extra_of() {
    if [ "$1" = plain ]; then echo 0; else "extra_$1"; fi
}

# keep_downloads MODE NUMBER PACKETS RETRANSMISSIONS EXTRA
keep_downloads() {
    local mode=$1 number=$2 fewer=
    [ "$number" = "$downloads" ] || fewer=" (of $number only)"
    keep "$mode" packets $(($3 / number))
    keep "$mode" retransmissions $(($4 / number))
    [ "$mode" = plain ] || keep "$mode" extra $(($5 / number))
    keep "$mode" mean "$(of_downloads 'printf "%s%.1f s", cut ? "over " : "", time / NR')$fewer"
    keep "$mode" slowest "$(of_downloads 'if (cut) printf "unfinished after %d s", limit
        else printf "%.1f s", slowest')"
    keep "$mode" goodput "$(of_downloads 'printf "%.0f kbit/s", got * 8 / time / 1000')"
}

# of_downloads AWK: what to print of all downloads, each a line of seconds and octets.
of_downloads() {
    LC_ALL=C awk -v octets="$octets" -v limit=$limit '
        { time += $1; got += $2; if ($1 > slowest) slowest = $1; if ($2 < octets) cut = 1 }
        END { '"$1"' }' "$directory/downloads"
}

# Datagrams go from the first node to the last.
measure_udp() {
    local mode=$1 deadline=$((SECONDS + limit))
    start_links $seed
    # iperf3 begins with a datagram that it does not repeat when it is lost, so it may take a few
    # tries until it starts.
    until try_udp "$mode" $deadline || [ $SECONDS -ge $deadline ]; do :; done
    stop_links
    keep "$mode" udp_packets "$(cat "$directory/packets")"
}

# Runs iperf3 once. Fails if nothing was sent although there was time to start.
try_udp() {
    local mode=$1 deadline=$2 began=$SECONDS sent=0 received
    local sent_before received_before
    sent_before=$(counter 0 Udp OutDatagrams)
    received_before=$(counter $hops Udp InDatagrams)
    start iperf3-server $hops iperf3 -s -1
    wait_for "the iperf3 server" listens $hops 5201
    start iperf3 0 iperf3 -c "10.77.$((hops - 1)).2" -u -b $udp_rate -l $udp_octets -t $udp_seconds
    while is_running iperf3 && [ $SECONDS -lt "$deadline" ]; do
        progress "$(title "$mode"): iperf3 has sent $sent datagrams"
        # The first datagram is iperf3's own.
        sent=$(($(counter 0 Udp OutDatagrams) - sent_before - 1))
        [ $sent -le 0 ] && sent=0 && [ $((SECONDS - began)) -ge 8 ] && break
    done
    received=$(($(counter $hops Udp InDatagrams) - received_before - 1))
    stop iperf3
    stop iperf3-server

    keep "$mode" udp "did not start"
    [ "$sent" -gt 0 ] || return 1
    keep "$mode" udp "$((received * 100 / sent)) %"
}

# counter NODE PROTOCOL NAME: one of the kernel's own counters.
counter() {
    ip netns exec "$net-$1" awk -v protocol="$2:" -v name="$3" '
        $1 == protocol && !column { for (column = NF; $column != name; column--); next }
        $1 == protocol { print $column; exit }' /proc/net/snmp
}

listens() {
    ip netns exec "$net-$1" ss -Hltn "sport = :$2" | grep -q .
}

size_of() {
    stat -c %s "$1" 2> /dev/null || echo 0
}

# --- output ----------------------------------------------------------------------------------

title() {
    if [ "$1" = plain ]; then echo plain; else echo "$with"; fi
}

# keep MODE WHAT VALUE: for the table.
keep() {
    local column=with
    [ "$1" != plain ] || column=plain
    result[$column,$2]=$3
}

# told PRINT...: prints the table of a part, and keeps it with the description for the page.
told() {
    progress_end
    { echo "$description" && "$@"; } > "$directory/told-$part"
    tail -n +$(($(wc -l <<< "$description") + 1)) "$directory/told-$part"
}

print_table() {
    progress_end
    echo
    line "" plain "$with" ratio
    row "$tcp_program, $(octets_as_text): mean of $downloads" mean
    row "  slowest" slowest
    row "  goodput" goodput
    row "  IP packets on the air" packets
    row "  TCP retransmissions" retransmissions
    row "  $extra" extra
    row "$udp_program, ${udp_rate%?} ${udp_rate: -1}bit/s: delivered" udp
    row "  IP packets on the air" udp_packets
}

# row TITLE RESULT
row() {
    local plain=${result[plain,$2]:--} with=${result[with,$2]:--}
    line "$1" "$plain" "$with" "$(ratio "$plain" "$with")"
}

line() {
    printf '%-34s %22s %22s %7s\n' "$@" | sed 's/ *$//'
}

octets_as_text() {
    if [ "$octets" -lt 1000000 ]; then
        echo "$((octets / 1000)) kB"
    else
        echo "$((octets / 1000000)) MB"
    fi
}

# ratio PLAIN WITH: of two numbers, each with its unit; nothing for anything else.
ratio() {
    LC_ALL=C awk -v plain="$1" -v with="$2" 'BEGIN {
        if (plain !~ /^[0-9]/ || with !~ /^[0-9]/ || plain + 0 == 0) exit
        ratio = with / plain
        printf ratio < 9.95 ? "%.2f" : "%.0f", ratio
    }'
}

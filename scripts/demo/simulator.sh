# What ./demo measures without the rights that namespaces need.
# shellcheck shell=bash

declare -A algorithms=([cubic]=cubic [reno]=new-reno)

# simulate MODE: plain, or the name of a part.
simulate() {
    local mode=$1 number time packets=0 retransmissions=0 extra=0
    tcp_program=TCP udp_program=UDP downloads=20
    : > "$directory/downloads"
    scenario "$mode" "${limit}s" '[[tcp]]' "octets = $octets" > "$directory/tcp.toml"
    for number in $(seq $downloads); do
        progress "$(title "$mode"): transfer $number of $downloads" 0
        run_scenario tcp "$number"
        time=$(sum_of delay_s)
        # An unfinished transfer has no delay.
        [ "$time" != 0 ] || time=$limit
        echo "$time $(sum_of octets_received)" >> "$directory/downloads"
        packets=$((packets + $(packets_on_air)))
        retransmissions=$((retransmissions + $(sum_of retransmissions)))
        [ "$mode" = plain ] || extra=$((extra + $("simulated_extra_$mode")))
    done
    keep_downloads "$mode" $downloads $packets $retransmissions $extra

    scenario "$mode" "$((udp_seconds + 10))s" '[[udp]]' "payload = $udp_octets" \
        "rate = \"${udp_rate}bit\"" "stop = \"${udp_seconds}s\"" > "$directory/udp.toml"
    run_scenario udp $seed
    keep "$mode" udp "$(($(sum_of received) * 100 / $(sum_of sent))) %"
    keep "$mode" udp_packets "$(packets_on_air)"
}

# scenario MODE DURATION FLOW...: the chain with one flow from end to end.
scenario() {
    local hop
    printf 'nodes = ["0"%s]\n' "$(printf ', "%s"' $(seq $hops))"
    [ "$1" = plain ] || "scenario_$1"
    printf 'duration = "%s"\n[defaults.tcp]\nalgorithm = "%s"\n' "$2" "${algorithms[$tcp]}"
    printf 'send-buffer = 1_000_000\nreceive-buffer = 1_000_000\n'
    for hop in $(seq 0 $((hops - 1))); do
        printf '[[link]]\nbetween = ["%s", "%s"]\n' "$hop" $((hop + 1))
        if is_lossy "$hop"; then
            printf 'rate = "%s"\ndelay = "%s"\nloss = "%s"\n' $rate $delay $loss
        fi
    done
    shift 2
    printf '%s\n' "$1" "from = \"$hops\"" 'to = "0"' "${@:2}"
}

run_scenario() {
    "$trackway" sim run "$directory/$1.toml" --seed "$2" --json > "$directory/report" || exit 1
}

# sum_of NAME: the sum of the numbers of this name in the report.
sum_of() {
    numbers_of "$1" < "$directory/report" | sum
}

# The IP packets on the lossy links, both ways.
packets_on_air() {
    local hop
    for hop in "${lossy_hops[@]}"; do
        for way in "$hop $((hop + 1))" "$((hop + 1)) $hop"; do
            grep -oE "\"from\":\"${way% *}\",\"to\":\"${way#* }\",\"packets\":[0-9]+" \
                "$directory/report"
        done
    done | numbers_of packets | sum
}

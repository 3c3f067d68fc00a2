//! Tests that scenario files and the gateway's configuration accept the same values for HBH.

use std::path::Path;

/// Parameters of HBH, and whether they are allowed.
const VALUES: &[(&str, bool)] = &[
    ("profile = \"default\"", true),
    ("profile = \"paper\"", true),
    ("profile = \"seed\"", false),
    ("protocol = 254", true),
    ("protocol = 0", false),
    ("protocol = 256", false),
    ("retries = 0", true),
    ("retries = 256", false),
    ("retries = \"3\"", false),
    ("window = 8", true),
    ("window = [2, 16]", true),
    ("window = 0", false),
    ("window = 16385", false),
    ("window = [16, 2]", false),
    ("window = [2, 4, 8]", false),
    ("congestion = 30\nclear = 5\nqueue = 60", true),
    ("clear = 50\ncongestion = 10", false),
    ("congestion = 300", false),
    ("congestion = 300\nqueue = 300", true),
    ("queue = 0", false),
    ("queue = 100000\n", true),
    ("queue = 100001", false),
    ("queue = 1", false),
    ("rate-increase = \"10kbit\"", true),
    ("rate-increase = 10000", false),
    ("rate-increase = \"unlimited\"", false),
    ("rate-increase = \"0bit\"", false),
    ("rate_increase = \"10kbit\"", false),
    ("rate-decrease = 0.5", true),
    ("rate-decrease = \"50%\"", true),
    ("rate-decrease = 0", false),
    ("rate-decrease = 1", false),
    ("rate-decrease = 2", false),
    ("ack-delay = \"0s\"", true),
    ("ack-delay = 0", true),
    ("ack-delay = 20", false),
    ("ack-delay = \"1h\"", false),
    ("ack_delay = \"20ms\"", false),
    ("redundancy = \"spare\"", true),
    ("redundancy = \"much\"", false),
    ("hold = \"30ms\"", true),
    ("hold = \"61s\"", false),
    ("absorb = false", true),
    ("absorb = 0", false),
    ("lifetime = \"9s\"", true),
    ("lifetime = \"0s\"", false),
    ("idle = \"8s\"", true),
    ("idle = \"1ms\"", false),
    ("flows = 7", true),
    ("flows = 0", false),
    ("packets = 99", true),
    ("packets = 15", false),
    ("rto.fixed = \"200ms\"", true),
    ("rto = { gain = 0.2, deviation-gain = \"30%\", deviations = 3, factor = 1.5 }", true),
    ("rto.gain = 0", false),
    ("rto.gain = 1.5", false),
    ("rto.deviations = -1", false),
    ("rto.deviations = inf", false),
    ("rto.backoff = 0.5", false),
    ("rto = { initial = \"1s\", minimum = \"5ms\", maximum = \"9s\" }", true),
    ("rto = { minimum = \"2s\", maximum = \"1s\" }", false),
    ("rto = 5", false),
    ("rto.smoothing = 5", false),
    ("retires = 3", false),
];

/// What a program says, from the key on.
fn of_key(complaint: &impl ToString) -> String {
    let complaint = complaint.to_string();
    complaint.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(complaint)
}

#[test]
fn both_programs_take_the_same_values_and_say_the_same_of_others() {
    for (text, is_allowed) in VALUES {
        let scenario = format!("nodes = [\"a\"]\n[hbh]\n{text}\n");
        let scenario = lab::scenario::Plan::parse(Path::new("a.toml"), scenario);
        let gateway = format!("[hbh]\ninterfaces = [\"wlan0\"]\n{text}\n");
        let gateway = gateway::Config::parse("a.toml", &gateway);

        let (scenario, gateway) = (
            scenario.map(drop).map_err(|complaint| of_key(&complaint)),
            gateway.map(drop).map_err(|complaint| of_key(&complaint)),
        );

        assert_eq!(scenario.is_ok(), *is_allowed, "{text}: {scenario:?}");
        assert_eq!(scenario, gateway, "{text}");
    }
}

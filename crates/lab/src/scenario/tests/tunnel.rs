//! Scenarios with coded tunnels.

use std::path::Path;

use super::Plan;

#[test]
fn a_transfer_each_way_leaves_the_link_with_a_short_queue() {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/both-ways.toml"));
    let report = Plan::read(path).expect("the example").run(None, None).expect("a report");

    let [up, down, beside] = &report.flows[..] else { panic!("{report}") };
    for flow in [up, down] {
        let tcp = flow.tcp.as_ref().expect("a transfer");
        assert!(tcp.octets_received > 22_000_000, "{report}");
    }
    // The link alone takes 20 ms, a queue at its target adds 6.
    let delay = beside.udp.as_ref().and_then(|udp| udp.delay_s).expect("some arrived");
    assert!(delay < 0.035, "{report}");
}

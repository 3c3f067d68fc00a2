//! Two neighbours keep the contract whatever comes.

use harness::{Core, Pair};

use super::*;
use crate::LinkReport;

/// What happens to a node.
#[derive(Clone, Debug)]
enum Input {
    /// An HBH packet from nowhere.
    Message(Vec<u8>),
    Packet(Vec<u8>),
    PeerGone,
    Report(LinkReport),
    Rerouted,
    /// The link layer could not bring the neighbour what was sent last.
    Unsent,
    /// The same of a packet that the node never sent.
    UnsentUnknown(Vec<u8>),
}

/// A node, and the message sent last.
#[derive(Debug)]
struct Node {
    relay: Relay,
    sent: Vec<u8>,
}

fn input() -> impl Strategy<Value = Input> {
    let octets = || prop::collection::vec(any::<u8>(), 0..60);
    let message = octets().prop_map(|octets| {
        let mut packet = Vec::new();
        let [from, to] = ["10.1.0.1", "10.1.0.2"].map(|address| address.parse().unwrap());
        Spec::new(from, to, protocol::EXPERIMENT).emit(octets.len(), &mut packet);
        packet.extend(octets);
        packet
    });
    let datagram = (1_u16..12, any::<u32>())
        .prop_map(|(port, number)| datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", number));
    let segment = (0_u32..40, 0_usize..3, prop_oneof![Just(ACK), Just(SYN), Just(RST)])
        .prop_map(|(place, len, flags)| segment(100 * place, 100 * len, flags));
    let report = (0_u32..20, 0_u32..20, prop::option::of(0_u64..300)).prop_map(
        |(arrived, lost, round_trip)| LinkReport {
            arrived,
            lost,
            round_trip: round_trip.map(Duration::from_millis),
        },
    );
    prop_oneof![
        1 => message.clone().prop_map(Input::Message),
        8 => datagram.prop_map(Input::Packet),
        8 => segment.prop_map(Input::Packet),
        1 => octets().prop_map(Input::Packet),
        1 => Just(Input::PeerGone),
        1 => report.prop_map(Input::Report),
        1 => Just(Input::Rerouted),
        3 => Just(Input::Unsent),
        1 => message.prop_map(Input::UnsentUnknown),
    ]
}

impl Core for Node {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        let Self { relay, sent } = self;
        match input {
            Input::Message(packet) => _ = relay.handle_message(now, Peer(0), &packet),
            Input::Packet(packet) => _ = relay.handle_packet(now, Peer(0), &packet),
            Input::PeerGone => {
                relay.remove_peer(Peer(0), |_, _| {});
                relay.add_peer(Peer(0), peer_config(0));
            }
            Input::Report(report) => relay.handle_link_report(Peer(0), report),
            Input::Rerouted => relay.reroute(Peer(0), |_, _| true, |_, _| {}),
            Input::Unsent => relay.handle_unsent(now, Peer(0), sent),
            Input::UnsentUnknown(packet) => relay.handle_unsent(now, Peer(0), &packet),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.relay.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.relay.poll_restored(&mut Vec::new()).is_some() || self.relay.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let has_more = self.relay.poll_transmit(now, Link(0), out).is_some();
        if has_more {
            self.sent.clone_from(out);
        }
        has_more
    }

    fn next_timeout(&self) -> Option<Time> {
        self.relay.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let stats = self.relay.stats();
        prop_assert!(stats.packets_held <= 32, "{stats:?}");
        Ok(())
    }
}

impl harness::Peer for Node {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.relay.handle_message(now, Peer(0), octets);
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_neighbours_keep_the_contract(
        is_paper: bool,
        steps in harness::steps(harness::between(input())),
    ) {
        let profile = if is_paper { Profile::Paper } else { Profile::Default };
        let ends = ["near", "far"].map(|end| {
            let config = Config { flows: 8, packets: 32, queue: 8, ..Config::new(profile) };
            let mut relay = Relay::new(config, Rng::stream(1, end));
            relay.add_peer(Peer(0), peer_config(0));
            Node { relay, sent: Vec::new() }
        });
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

//! Two layers keep the contract whatever TCP sends and the network does.

use std::net::SocketAddr;

use base::ip::Header;
use base::rng::Rng;
use base::tcp::{Flags, Options, Segment};
use base::time::Time;
use harness::{Core, Pair, Peer};
use proptest::prelude::*;

use super::super::wire::Message;
use super::super::{Config, Layer, PROTOCOL};

/// Packets that a layer may hold.
const PACKETS: usize = 64;

/// A segment that TCP sends: its place, its length and its flags.
type Sent = (u32, usize, Flags);

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![
        12 => Just(Flags::ACK),
        1 => Just(Flags::SYN),
        1 => Just(Flags::ACK | Flags::FIN),
        1 => Just(Flags::RST),
    ];
    (0_u32..40, 0_usize..3, flags).prop_map(|(place, len, flags)| (50 * place, 50 * len, flags))
}

#[derive(Debug)]
struct End {
    layer: Layer,
    local: SocketAddr,
    remote: SocketAddr,
}

impl Core for End {
    type Input = Sent;

    fn handle(&mut self, now: Time, (seq, len, flags): Sent) {
        let mut packet = Vec::new();
        Segment {
            source: self.local,
            destination: self.remote,
            seq,
            ack: 1,
            flags,
            window: 1_000,
            urgent: 0,
            options: Options::default(),
            payload: &vec![7; len],
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
        }
        .emit(&mut packet);
        self.layer.handle_outgoing(now, &packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.layer.handle_timeout(now);
    }

    fn poll(&mut self, now: Time) -> bool {
        self.layer.poll_segment(now).is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.layer.poll_transmit(now, out)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.layer.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.layer.held() <= PACKETS);
        prop_assert!((0.0..=1.0).contains(&self.layer.loss()));
        Ok(())
    }
}

impl Peer for End {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        if let Ok(header) = Header::parse(octets)
            && header.protocol == PROTOCOL
            && let Ok(message) = Message::parse(&header, octets, header.len)
        {
            self.layer.handle_message(now, &message);
        }
    }
}

#[test]
fn what_is_no_tcp_passes_unchanged() {
    let end = |address: &str| address.parse().unwrap();
    let rng = Rng::stream(1, "coefficients");
    let mut layer = Layer::new(Config::default(), end("10.0.0.1:1"), end("10.0.0.2:2"), rng);
    let packet = [0x45, 0, 0, 21, 9];
    let mut out = Vec::new();

    layer.handle_outgoing(Time::ZERO, &packet);

    assert!(layer.poll_transmit(Time::ZERO, &mut out));
    assert_eq!(out, packet);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_layers_keep_the_contract(steps in harness::steps(harness::between(sent()))) {
        let config = Config { max_packets: PACKETS, max_window: 20, ..Config::default() };
        let [a, b] = ["10.0.0.1:1", "10.0.0.2:2"].map(|address| address.parse().unwrap());
        let ends = [(a, b), (b, a)].map(|(local, remote)| {
            let layer = Layer::new(config, local, remote, Rng::stream(1, "coefficients"));
            End { layer, local, remote }
        });
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

//! Two ends keep the contract whatever comes.

use base::rng::Rng;
use harness::{Core, Pair, Peer};
use proptest::prelude::*;

use super::*;

const WINDOW: usize = 40;
const QUEUE: usize = 40_000;

/// What happens to an end.
#[derive(Clone, Debug)]
pub enum Input {
    /// A datagram from nowhere, with this number.
    Datagram(u64, Vec<u8>),
    Packet(Vec<u8>),
    /// A path is opened, perhaps as a backup.
    Opened(PathId, bool),
    PathChanged(PathId),
    TooBig(PathId, usize),
    FirstLink(PathId, usize),
}

fn input() -> impl Strategy<Value = Input> {
    let octets = prop::collection::vec(any::<u8>(), 0..60);
    let packet = (0_usize..1_400, any::<u32>(), 0_u8..3)
        .prop_map(|(len, index, flow)| datagram(len, index, flow));
    let path = || (0..PATHS).prop_map(|place| PathId::new(place).expect("there is such a path"));
    prop_oneof![
        2 => (path(), 0_u64..1 << 34, octets.clone()).prop_map(|(path, sequence, octets)| {
            Input::Datagram(path.number(sequence), octets)
        }),
        8 => packet.prop_map(Input::Packet),
        1 => octets.prop_map(Input::Packet),
        1 => (path(), any::<bool>()).prop_map(|(path, backup)| Input::Opened(path, backup)),
        1 => path().prop_map(Input::PathChanged),
        1 => (path(), 0_usize..1_500).prop_map(|(path, octets)| Input::TooBig(path, octets)),
        1 => (path(), 0_usize..10_000).prop_map(|(path, octets)| Input::FirstLink(path, octets)),
    ]
}

impl Core for Tunnel {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Datagram(number, octets) => self.handle_datagram(now, number, true, &octets),
            Input::Packet(packet) => {
                let _: Result<(), Refused> = self.handle_packet(now, &packet);
            }
            Input::Opened(path, is_backup) => {
                let Config { max_mtu, overhead, .. } = Config::default();
                self.open_path(now, path, [max_mtu, overhead], is_backup);
            }
            Input::PathChanged(path) => {
                let Config { max_mtu, overhead, .. } = Config::default();
                self.handle_path_changed(now, path, max_mtu, overhead);
            }
            Input::TooBig(path, payload) => self.handle_too_big(now, path, payload),
            Input::FirstLink(path, max_mtu) => self.handle_first_link(now, path, max_mtu),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn poll(&mut self, now: Time) -> bool {
        self.poll_packet(now, &mut Vec::new()) || self.poll_event().is_some()
    }

    /// Before the payload stands its number.
    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let mut payload = Vec::new();
        let mut paths = self.in_turn();
        let sent = paths.find_map(|path| self.poll_transmit(now, path, &mut payload));
        let Some(transmit) = sent else { return false };
        out.extend_from_slice(&transmit.number.to_be_bytes());
        out.extend_from_slice(&payload);
        true
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let estimates = self.estimates();
        prop_assert!(estimates.queued <= QUEUE, "{estimates:?}");
        prop_assert!(estimates.unacknowledged <= WINDOW, "{estimates:?}");
        prop_assert!(estimates.path_mtu <= Config::default().max_mtu, "{estimates:?}");
        Ok(())
    }
}

impl Peer for Tunnel {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        let (number, payload) = octets.split_first_chunk().expect("a number");
        self.handle_datagram(now, u64::from_be_bytes(*number), false, payload);
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_ends_keep_the_contract(steps in harness::steps(harness::between(input()))) {
        let config = Config { window: WINDOW, queue: QUEUE, ..Config::default() };
        let ends = ["near", "far"].map(|end| Tunnel::new(Time::ZERO, config, Rng::stream(1, end)));
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

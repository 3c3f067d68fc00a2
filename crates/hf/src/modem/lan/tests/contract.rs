//! Both ends of a session keep the contract of cores, whatever comes.

use base::time::Time;
use harness::{Core, Pair, Peer};
use proptest::prelude::*;

use super::super::{Dce, Dte};
use super::{config, waveform};
use crate::modem::Event;

/// One end of a session.
#[derive(Debug)]
enum End {
    Modem(Dce),
    Station(Dte),
}

/// What happens to an end besides octets of the other.
#[derive(Clone, Debug)]
enum Act {
    /// The radio wants octets of the modem.
    Block,
    Carrier,
    /// The station ends a transmission, or the radio one of the modem.
    Ends,
    Lost,
    Octets(usize),
    Start,
}

impl Core for End {
    type Input = Act;

    fn handle(&mut self, now: Time, input: Act) {
        match (self, input) {
            (Self::Station(dte), Act::Start) => dte.start(now, waveform()),
            (Self::Station(dte), Act::Octets(len)) => dte.supply(now, &vec![7; len]),
            (Self::Station(dte), Act::Ends) => dte.end(now),
            (Self::Station(dte), Act::Lost) => dte.abort_reception(now),
            (Self::Station(_), Act::Block | Act::Carrier) => {}
            (Self::Modem(dce), Act::Block) => {
                let _ = dce.poll_transmit(now, 1_296, &mut Vec::new());
            }
            (Self::Modem(dce), Act::Carrier | Act::Start) => {
                dce.handle_modem(now, Event::CarrierDetected { waveform: Some(waveform()) });
            }
            (Self::Modem(dce), Act::Octets(len)) => {
                dce.handle_modem(now, Event::Received(vec![7; len]));
            }
            (Self::Modem(dce), Act::Ends) => dce.handle_modem(now, Event::Sent),
            (Self::Modem(dce), Act::Lost) => dce.handle_modem(now, Event::CarrierLost),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Modem(dce) => dce.handle_timeout(now),
            Self::Station(dte) => dte.handle_timeout(now),
        }
    }

    fn poll(&mut self, _now: Time) -> bool {
        match self {
            Self::Modem(_) => false,
            Self::Station(dte) => dte.poll_event().is_some(),
        }
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Modem(dce) => dce.poll_octets(out),
            Self::Station(dte) => dte.poll_octets(out),
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Modem(dce) => dce.next_timeout(),
            Self::Station(dte) => dte.next_timeout(),
        }
    }
}

impl Peer for End {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        match self {
            Self::Modem(dce) => dce.handle_octets(now, octets),
            Self::Station(dte) => dte.handle_octets(now, octets),
        }
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn both_ends_keep_the_contract(steps in harness::steps(harness::between(act()))) {
        let ends = [
            End::Station(Dte::new(Time::ZERO)),
            End::Modem(Dce::new(Time::ZERO, config())),
        ];
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Block),
        Just(Act::Carrier),
        Just(Act::Ends),
        Just(Act::Lost),
        (0_usize..5_000).prop_map(Act::Octets),
        Just(Act::Start),
    ]
}

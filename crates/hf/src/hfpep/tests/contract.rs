//! Two proxies keep the contract whatever happens to them, their nodes and their users.

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use crate::hfpep::flows::{self, Arrived, Client};
use crate::hfpep::wire::MAGIC;
use crate::hfpep::{Config, Event, HfPep, Opening, SessionId, Target};
use crate::slep::tests::bench::{Bench, NODES, above};
use crate::slep::tests::contract::{Act, User, config, input};
use crate::slep::{Delivery, Options, Reason};

const FLOWS: usize = 20;

above!(HfPep, Config, Event);

/// An opening of the client at a port.
pub(crate) fn opening(port: u16) -> Opening {
    let source = ([10, 1, 0, 9], port).into();
    let destination = ([10, 2, 0, 1], 443).into();
    Opening { target: Target::Address { source, destination }, tls: None }
}

impl User for HfPep {
    fn act(&mut self, now: Time, other_end: usize, act: Act) {
        match act {
            Act::Answer(which) => self.accept(SessionId(which)),
            Act::Finish(which) => self.finish(now, SessionId(which)),
            Act::Open(len) => {
                let options = Options { is_compressed: len % 2 == 0, ..Options::default() };
                let opened = match len % 3 {
                    0 => self.open_confirmed(now, NODES[other_end], opening(7), options),
                    _ => self.open(now, NODES[other_end], opening(7), options),
                };
                if let Ok(session) = opened {
                    self.write(now, session, &vec![b'o'; len]);
                }
            }
            Act::Read(which, most) => {
                let mut out = Vec::new();
                let read = self.read(now, SessionId(which), &mut out, most);
                assert!(read.octets == out.len() && read.octets <= most);
            }
            Act::Reset(which) if which % 2 == 0 => {
                self.reset_behind(now, SessionId(which), Reason::CANCELLED);
            }
            Act::Reset(which) => self.reset(SessionId(which), Reason::CANCELLED),
            Act::Send(len) => {
                let address = ([10, 1, 0, 9], u16::from(len.to_le_bytes()[0])).into();
                let (peer, target) = (NODES[other_end], ([10, 2, 0, 1], 53).into());
                let client = Client { peer, entrance: 0, address, target };
                let delivery = Delivery { is_reliable: len % 2 == 0, ..Delivery::default() };
                let _ = self.send_datagram(now, client, delivery, &vec![b'd'; len]);
                while let Some(arrived) = self.poll_datagram(now) {
                    match arrived {
                        Arrived::Request { flow, .. } if len % 5 == 0 => {
                            self.refuse(now, flow, Reason::BLOCKED);
                        }
                        Arrived::Request { flow, data, .. } => _ = self.answer(now, flow, &data),
                        Arrived::Answer { .. } => {}
                    }
                }
            }
            Act::Write(which, len) => _ = self.write(now, SessionId(which), &vec![b'w'; len]),
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        // As many wait for their first data at most as there are streams.
        let (sessions, most) = (self.stats().sessions, config().limits.streams);
        prop_assert!(sessions <= 2 * most as u64, "{sessions}");
        let flows = self.stats().flows;
        prop_assert!(flows.opened_here.max(flows.opened_there) <= FLOWS as u64, "{flows:?}");
        User::check(self.slep())
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn proxies_keep_the_contract(
        steps in harness::steps(input(vec![0x18, 0, 1, 0, 3, 0, 0, 0, MAGIC])),
    ) {
        let flows = flows::Config { flows: FLOWS, ..flows::Config::default() };
        let mut bench = Bench::<HfPep>::new(&Config { slep: config(), flows, ..Config::default() });
        let now = bench.now;
        harness::keeps(&mut bench, now, steps)?;
    }
}

//! Both ends, with their nodes between them, keep the contract whatever happens.

use base::time::Time;
use harness::Core;
use proptest::prelude::*;

use super::bench::{Above, Bench, Fate, NODES};
use crate::slep::{Addresses, Config, Delivery, Limits, Options, Reason, Slep, StreamId};

/// What happens to two ends, or to what is between them.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Act(usize, Act),
    Carry(usize, Fate),
    Connect(usize),
    Disconnect(usize),
    /// The nodes look whether there is something to send.
    Poll,
    RestartNode(usize, bool),
    /// A U_PDU that the other end has not sent.
    Stray(usize, Vec<u8>),
}

/// What a user does: with which of its streams, and how many octets.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Answer(u64),
    Finish(u64),
    Open(usize),
    Read(u64, usize),
    Reset(u64),
    /// A datagram; every other one is reliable.
    Send(usize),
    Write(u64, usize),
}

/// A core that a user does something with.
pub(crate) trait User: Above {
    fn act(&mut self, now: Time, other_end: usize, act: Act);
    /// Checks that what it keeps is bounded.
    fn check(&self) -> Result<(), TestCaseError>;
}

impl User for Slep {
    fn act(&mut self, now: Time, other_end: usize, act: Act) {
        match act {
            Act::Answer(which) if which % 2 == 0 => self.hold_end(StreamId(which)),
            Act::Answer(which) => self.confirm_end(StreamId(which)),
            Act::Finish(which) => self.finish(StreamId(which)),
            Act::Open(len) => {
                let options = Options { is_compressed: len % 2 == 0, ..Options::default() };
                let opened = self.open(now, NODES[other_end], Addresses::default(), options);
                if let Ok(stream) = opened {
                    self.write(stream, &vec![b'o'; len]);
                }
            }
            Act::Read(which, most) => _ = self.read(StreamId(which), &mut Vec::new(), most),
            Act::Reset(which) if which % 2 == 0 => {
                self.reset_behind(now, StreamId(which), Reason::CANCELLED);
            }
            Act::Reset(which) => self.reset(StreamId(which), Reason::CANCELLED),
            Act::Send(len) => {
                while self.poll_datagram().is_some() {}
                let delivery = Delivery { is_reliable: len % 2 == 0, ..Delivery::default() };
                let (to, data) = (NODES[other_end], vec![b'd'; len]);
                let _ = self.send_datagram(now, to, Addresses::default(), delivery, &data);
            }
            Act::Write(which, len) => _ = self.write(StreamId(which), &vec![b'w'; len]),
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let stats = self.stats();
        prop_assert!(stats.live <= STREAMS as u64, "{stats:?}");
        prop_assert!(stats.unread <= (RECEIVED + STREAMS * 2_048) as u64, "{stats:?}");
        Ok(())
    }
}

const STREAMS: usize = 6;
const RECEIVED: usize = 8_000;

pub(crate) fn config() -> Config {
    let limits = Limits {
        streams: STREAMS,
        streams_of_peer: STREAMS,
        unsent: 3_000,
        sent: 10_000,
        received: RECEIVED,
        early: 2_000,
        ..Config::default().limits
    };
    Config { mtu: 200, window: 8, limits, ..Config::default() }
}

/// `first` is what strays begin with, as many of them as not.
pub(crate) fn input(first: Vec<u8>) -> impl Strategy<Value = Input> {
    let fate = prop_oneof![
        8 => Just(Fate::Arrives),
        1 => Just(Fate::Fails),
        1 => any::<bool>().prop_map(Fate::MayHave),
    ];
    let which = || 1_u64..8;
    let act = prop_oneof![
        2 => which().prop_map(Act::Answer),
        1 => which().prop_map(Act::Finish),
        3 => (0_usize..2_000).prop_map(Act::Open),
        3 => (which(), 0_usize..3_000).prop_map(|(which, most)| Act::Read(which, most)),
        1 => which().prop_map(Act::Reset),
        2 => (0_usize..300).prop_map(Act::Send),
        3 => (which(), 0_usize..2_000).prop_map(|(which, len)| Act::Write(which, len)),
    ];
    let stray = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..30)).prop_map(
        move |(has_first, rest)| {
            let first = if has_first { first.clone() } else { Vec::new() };
            [first, rest].concat()
        },
    );
    prop_oneof![
        8 => (0_usize..2, act).prop_map(|(end, act)| Input::Act(end, act)),
        8 => (0_usize..4, fate).prop_map(|(which, fate)| Input::Carry(which, fate)),
        3 => (0_usize..2).prop_map(Input::Connect),
        1 => (0_usize..2).prop_map(Input::Disconnect),
        6 => Just(Input::Poll),
        1 => (0_usize..2, any::<bool>()).prop_map(|(end, came)| Input::RestartNode(end, came)),
        2 => (0_usize..2, stray).prop_map(|(end, u_pdu)| Input::Stray(end, u_pdu)),
    ]
}

impl<C: User> Core for Bench<C> {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        self.now = now;
        match input {
            Input::Act(end, act) => self.ends[end].core.act(now, 1 - end, act),
            Input::Carry(which, fate) => self.carry(which, fate),
            Input::Connect(end) => self.connect(end),
            Input::Disconnect(end) => self.disconnect(end),
            Input::Poll => {
                for (at, end) in self.ends.iter_mut().enumerate() {
                    let requests = std::iter::from_fn(|| end.server.poll_request(now, 0));
                    self.air.extend(requests.map(|request| (at, request)));
                }
            }
            Input::RestartNode(end, arrives) => self.restart_node(end, arrives),
            Input::Stray(end, u_pdu) => self.say(end, &u_pdu),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        for end in &mut self.ends {
            end.core.handle_timeout(now);
            end.server.handle_timeout(now);
        }
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.ends
            .iter_mut()
            .any(|end| end.core.poll_event().is_some() || end.server.poll_event().is_some())
    }

    /// What one of core and node sends, the other has at once.
    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.ends.iter_mut().any(|end| {
            let Some(id) = end.id else { return false };
            if end.core.poll_octets(now, out) {
                end.server.handle_octets(now, id, out);
                return true;
            }
            let is_any = end.server.poll_octets(now, id, out);
            if is_any {
                end.core.handle_octets(now, out);
            }
            is_any
        })
    }

    fn next_timeout(&self) -> Option<Time> {
        Bench::next_timeout(self)
    }

    fn check(&self) -> Result<(), TestCaseError> {
        self.ends.iter().try_for_each(|end| end.core.check())
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn streams_keep_the_contract(steps in harness::steps(input(vec![0x18]))) {
        let mut bench: Bench = Bench::new(&config());
        let now = bench.now;
        harness::keeps(&mut bench, now, steps)?;
    }
}

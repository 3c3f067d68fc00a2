//! Fuzzes an S/R node between arbitrary programs and nodes: the node keeps working in bounded memory, and reports each
//! outcome once.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use sar::wire::Pdu;
use sar::{Arrival, Config, Event, Message, Options, Ports, Precedence, Profile, Resume, Sar};

const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255));
const PORTS: Ports = Ports { source: 5_000, destination: 1_581 };

/// The input chooses the actions of programs and other nodes: its first octet is the profile, then each step has one
/// octet for the action and one for the amount.
pub(crate) fn node(input: &[u8]) {
    read_and_write(input);
    let Some((profile, mut rest)) = input.split_first() else { return };
    let mut run = Run::new(Profile::NAMES[usize::from(*profile) % Profile::NAMES.len()].1);
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// A PDU read and written again reads as the same PDU.
fn read_and_write(input: &[u8]) {
    let Ok(pdu) = Pdu::parse(input) else { return };
    let mut octets = Vec::new();
    pdu.emit(&mut octets);
    assert_eq!(Pdu::parse(&octets), Ok(pdu));
}

struct Run {
    now: Time,
    node: Sar,
    /// PDUs sent recently, for other nodes to change and send back.
    sent: Vec<Vec<u8>>,
    taken: usize,
    told: BTreeSet<(u64, IpAddr)>,
    has_room: bool,
}

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1 + number % 4).into()
}

impl Run {
    fn new(profile: Profile) -> Self {
        let mut config = Config::of(profile);
        config.segment = 20;
        config.coding = true;
        config.flow.queue = 576;
        config.flow.transfers = 3;
        config.flow.transfers_of_peer = 2;
        config.limits.message = 2_000;
        config.limits.waiting = 6;
        config.limits.reassemblies = 4;
        config.limits.reassembly_octets = 4_096;
        config.limits.remembered = 6;
        config.limits.peers = 2;
        config.limits.answers = 16;
        let now = Time::ZERO;
        let node = Sar::new(now, config, Some(1), Rng::stream(0, "sar"));
        Self { now, node, sent: Vec::new(), taken: 0, told: BTreeSet::new(), has_room: true }
    }

    /// Does one step and returns the unread rest of the input.
    fn act<'a>(&mut self, action: u8, value: u8, rest: &'a [u8]) -> &'a [u8] {
        let from = address(action >> 5);
        match action & 0x07 {
            0 | 1 => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                self.arrive(from, octets);
                return after;
            }
            2 => self.submit(action, value),
            3 => self.now += Duration::from_millis(1 << (value % 18)),
            4 => self.has_room = value.is_multiple_of(2),
            5 | 6 => self.come_back(from, value),
            _ => self.now = self.node.next_timeout().unwrap_or(self.now).max(self.now),
        }
        rest
    }

    fn arrive(&mut self, from: IpAddr, octets: &[u8]) {
        let arrival =
            Arrival { from, is_group: octets.len() % 2 == 1, precedence: Precedence::new(1) };
        let _ = self.node.handle_datagram(self.now, arrival, octets);
    }

    /// Returns a PDU of this node from another node, with one octet changed or with another type.
    fn come_back(&mut self, from: IpAddr, value: u8) {
        let Some(sent) = self.sent.get(usize::from(value) % self.sent.len().max(1)) else { return };
        let mut octets = sent.clone();
        if value & 0x40 != 0 {
            let at = usize::from(value) % octets.len();
            octets[at] ^= 1 << (value & 7);
        }
        if value & 0x80 != 0 {
            // A complete acknowledgement of this PDU.
            octets.truncate(8);
            (octets[4], octets[5]) = (0xc0, 0x05);
        }
        self.arrive(from, &octets);
    }

    fn submit(&mut self, action: u8, value: u8) {
        let message = Message { ports: PORTS, data: vec![value; usize::from(value) * 3].into() };
        let to = [address(1), address(2), address(3)];
        let to = &to[..1 + usize::from(action >> 6).min(2)];
        let options = Options {
            precedence: Precedence::new(value % 6),
            lifetime: match value {
                _ if value.is_multiple_of(5) => Some(Duration::from_secs(9)),
                _ if value.is_multiple_of(11) => Some(Duration::from_secs(3_000)),
                _ => None,
            },
            is_acknowledged: !value.is_multiple_of(7),
            via: (action & 0x08 != 0).then_some(GROUP),
            resume: (action & 0x10 != 0)
                .then_some(Resume { serial: value.into(), segment: (value / 2).into() }),
        };
        if self.node.submit(self.now, &message, to, options).is_ok() {
            self.taken += to.len();
        }
    }

    /// Takes the node's output; a driver repeats its calls while a deadline is due.
    fn settle(&mut self) {
        let mut out = Vec::new();
        for turn in 0.. {
            assert!(turn < 1_000, "it spins");
            self.node.handle_timeout(self.now);
            assert!(self.node.next_timeout().is_none_or(|due| due > self.now));
            let mut is_idle = true;
            while let Some(event) = self.node.poll_event() {
                if let Event::Outcome { id, destination, .. } = event {
                    assert!(self.told.insert((id.0, destination)), "a second outcome");
                }
            }
            while self.has_room && self.node.poll_transmit(self.now, &mut out).is_some() {
                Pdu::parse(&out).expect("what is written can be read");
                self.sent.push(out.clone());
                is_idle = false;
                if self.sent.len() > 40 {
                    self.sent.remove(0);
                }
            }
            if is_idle {
                break;
            }
        }
        let (levels, limits) = (self.node.stats().levels, self.node.config().limits);
        // Messages with a lifetime return to the waiting messages while their destination does not answer.
        assert!(levels.waiting <= limits.waiting as u64 + 21, "{levels:?}");
        assert!(levels.transfers <= 21, "{levels:?}");
        assert!(levels.reassemblies <= limits.reassemblies as u64, "{levels:?}");
        assert!(levels.reassembly_octets <= limits.reassembly_octets as u64, "{levels:?}");
        assert!(levels.answers <= limits.answers as u64, "{levels:?}");
        assert!(levels.remembered <= limits.remembered as u64, "{levels:?}");
        assert!(self.told.len() <= self.taken, "more outcomes than destinations");
    }
}

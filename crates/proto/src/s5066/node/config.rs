//! What a node is, and how it behaves where the standard leaves it free.

use std::time::Duration;

use super::super::cas::{self, Access};
use super::super::dts::policy;
use super::super::dts::wire::Extensions as Profiles;
use super::super::{Address, sis};
use super::introduction::Introduction;
use crate::modem::Waveform;

/// How long a modem behind TCP may take from the command to transmit to its preamble: it fills buffers
/// before it transmits.
const MODEM_START: Duration = Duration::from_millis(500);

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its address.
    pub address: Address,
    /// What it transmits with, or begins with.
    pub waveform: Waveform,
    /// Who decides that it transmits with another.
    pub rate: Rate,
    /// What its clients may do.
    pub sis: sis::Config,
    /// How patient its links are.
    pub link: cas::link::Config,
    /// How it shares the frequency.
    pub access: Access,
    /// Links at most; one more is refused.
    pub links: usize,
    /// Stations remembered at most; the longest unheard without a link are forgotten.
    pub peers: usize,
    /// Between the end of what was heard and the answer, so that applications' own answers go
    /// along.
    pub gather: Duration,
    /// The modem's way from receiving to transmitting and back.
    pub switching: Duration,
    /// From the end of a block until the modem has decoded it.
    pub decoding: Duration,
    /// The longest transmission, up to 127.5 s.
    pub longest: Duration,
    /// How long stations may answer each other with data while others wait for their turn; whoever
    /// has had one after that only answers. Also the longest transmission then.
    pub exchange: Duration,
    /// The longest transmission while something more urgent goes to or comes from this station.
    pub longest_beside_urgent: Duration,
    /// How often an acknowledgement is sent in one transmission, at least 1.
    pub ack_copies: u8,
    /// Transmissions without an answer after which a link is lost, at least 1.
    pub silences: u32,
    /// Octets of the two addresses in a frame at least, 1 to 7; more where they need it.
    pub address_octets: u8,
    /// Segments that may be on their way with long numbers, up to 32,768.
    pub long_window: u32,
    /// Segments that may be on their way with short numbers, up to 128.
    pub short_window: u32,
    /// What it can do beyond Edition 3, with stations that say that they can too.
    pub extensions: Extensions,
}

/// Whether the data rate follows the channel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rate {
    /// Always the configured waveform, unless the peer asks for another.
    #[default]
    Fixed,
    /// Faster while little is lost, slower when much is: for waveforms whose preamble names them,
    /// and modems that take each transmission's from us.
    Adaptive,
    /// Whatever the modem is set to, which neither we nor peers can change: it tells, and
    /// [`super::Node::handle_waveform`] passes that on.
    Modem,
}

/// What a node can do beyond Edition 3: the enhancements EP2, 3, 5, 9 and 11.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extensions {
    /// EP2: padding frames, in a layout of ours.
    pub padding: bool,
    /// EP3: data in the transmission that asks for the link.
    pub pipelined: bool,
    /// EP5: sequence numbers of 16 bits, in layouts of ours.
    pub long_numbers: bool,
    /// EP9: compact confirmations between clients.
    pub compact: bool,
    /// EP11: segments of one C_PDU of several lengths.
    pub variable_segments: bool,
}

impl Extensions {
    /// All of them.
    pub const ALL: Self = Self {
        padding: true,
        pipelined: true,
        long_numbers: true,
        compact: true,
        variable_segments: true,
    };
    /// None of them: Edition 3.
    pub const NONE: Self = Self {
        padding: false,
        pipelined: false,
        long_numbers: false,
        compact: false,
        variable_segments: false,
    };

    /// Those whose layouts are public, as the order wire writes them (EP7).
    pub(super) fn profiles(self) -> Profiles {
        let pairs = [
            (self.pipelined, Profiles::PIPELINING),
            (self.compact, Profiles::COMPACT_CONFIRM),
            (self.variable_segments, Profiles::VARIABLE_SEGMENTS),
        ];
        let has = pairs.into_iter().filter(|(has, _)| *has);
        has.fold(Profiles::default(), |all, (_, one)| all.with(one))
    }

    /// Takes what a station says in the order wire, where `own` can do it too.
    pub(super) fn learn_profiles(&mut self, own: Self, profiles: Profiles) {
        self.pipelined = own.pipelined && profiles.has(Profiles::PIPELINING);
        self.compact = own.compact && profiles.has(Profiles::COMPACT_CONFIRM);
        self.variable_segments = own.variable_segments && profiles.has(Profiles::VARIABLE_SEGMENTS);
    }

    /// Takes what a station says of the layouts that are ours; without a word it knows none.
    pub(super) fn learn_ours(&mut self, own: Self, said: Option<Introduction>) {
        self.padding = own.padding && said.is_some_and(|said| said.padding);
        self.long_numbers = own.long_numbers && said.is_some_and(|said| said.long_numbers);
    }
}

impl Config {
    /// A node on a frequency that it shares with one other, whose modem begins at once.
    #[must_use]
    pub fn new(address: Address, waveform: Waveform) -> Self {
        Self {
            address,
            waveform,
            rate: Rate::default(),
            sis: sis::Config::default(),
            link: cas::link::Config::default(),
            access: Access::default(),
            links: 16,
            peers: 64,
            gather: Duration::from_millis(100),
            switching: Duration::from_millis(100),
            decoding: Duration::from_millis(50),
            longest: policy::MAX_TRANSMISSION,
            exchange: Duration::from_secs(60),
            longest_beside_urgent: Duration::from_secs(15),
            ack_copies: 2,
            silences: 8,
            address_octets: 1,
            long_window: 32_768,
            short_window: 128,
            extensions: Extensions::ALL,
        }
    }

    /// The same with a modem behind TCP: it takes its time, hands on whole blocks, and only its operator
    /// can change what it transmits with.
    #[must_use]
    pub fn behind_tcp(address: Address, waveform: Waveform) -> Self {
        Self {
            rate: Rate::Modem,
            switching: MODEM_START,
            decoding: waveform.block_time(),
            ..Self::new(address, waveform)
        }
    }

    /// After this time at most a station that has something to send has its turn, as long as all are
    /// heard: one pair may have begun when nobody waited, and goes on until each end has had its last
    /// transmission; of the others each may have an exchange before.
    #[must_use]
    pub fn turn_bound(&self) -> Duration {
        let others = match self.access {
            Access::PointToPoint => 0,
            Access::Jitter { .. } => MANY,
            Access::Slotted { stations, .. } => u32::from(stations).saturating_sub(2),
        };
        let alone = self.access.longest_exchange(self.times(self.waveform), self.exchange);
        alone + self.longest * 2 + self.exchange * 3 * others
    }

    /// How long a short U_PDU that is more urgent than all else takes at most beside bulk that goes the
    /// same way: the answer to a transmission that has just ended, a slot, and its own transmission.
    #[must_use]
    pub fn urgent_bound(&self) -> Duration {
        let times = self.times(self.waveform);
        let slots = self.access.wait_for_others(times);
        let own = self.switching + self.waveform.air_time(SHORT) + self.decoding;
        times.answer + own + times.gather + slots + own
    }

    /// The same beside bulk that goes the other way, once the station that sends it has heard
    /// something as urgent a short while ago.
    #[must_use]
    pub fn urgent_bound_against(&self) -> Duration {
        self.switching + self.longest_beside_urgent + self.urgent_bound()
    }

    /// How long a soft link stays up without data: not only until others have had their turn.
    pub(super) fn idle(&self) -> Duration {
        match self.access {
            Access::PointToPoint => self.link.idle,
            Access::Jitter { .. } | Access::Slotted { .. } => {
                self.link.idle + self.turn_bound() * 2
            }
        }
    }

    /// How long things take on the air with this waveform.
    pub(super) fn times(&self, waveform: Waveform) -> cas::Times {
        // Until a preamble is recognised: switching, the preamble, and what modems need for it.
        let slot = self.switching + waveform.preamble() + RECOGNITION;
        // The last block must be decoded at the far end before an answer can begin; what is
        // announced is announced in half seconds.
        let answer = self.decoding + ANNOUNCED + self.gather + slot + MARGIN;
        cas::Times { gather: self.gather, slot, answer }
    }
}

/// Octets on the air of a U_PDU of some hundred octets.
const SHORT: usize = 200;
/// Other stations on a frequency where nobody says how many there are.
const MANY: u32 = 8;
/// From the end of a preamble until a modem tells of it, at most.
const RECOGNITION: Duration = Duration::from_millis(300);
/// What the announced end of a transmission may lie behind its end.
const ANNOUNCED: Duration = Duration::from_millis(500);
/// For travel, and clocks.
const MARGIN: Duration = Duration::from_millis(200);

//! The configuration of a node: its address, and its behaviour where the standard leaves a choice.

use std::time::Duration;

use super::super::cas::{self, Access};
use super::super::dts::policy;
use super::super::dts::wire::Extensions as Profiles;
use super::super::{Address, sis};
use super::introduction::Introduction;
use crate::modem::Waveform;

/// The longest time from the command to transmit until the preamble of a modem behind TCP, which
/// fills its buffers first.
const MODEM_START: Duration = Duration::from_millis(500);

/// The configuration of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The node's address.
    pub address: Address,
    /// The waveform that it transmits with, at least until the data rate changes.
    pub waveform: Waveform,
    /// How the data rate changes.
    pub rate: Rate,
    /// The configuration of the interface for clients.
    pub sis: sis::Config,
    /// The timeouts and retries of links.
    pub link: cas::link::Config,
    /// How it shares the frequency.
    pub access: Access,
    /// The most links at a time; further ones are refused.
    pub links: usize,
    /// The most stations that are remembered. Beyond it, the station that was silent for longest and
    /// has no link is forgotten.
    pub peers: usize,
    /// The delay of an answer after a reception, so that applications' own answers go along with it.
    pub gather: Duration,
    /// The time that the modem needs to switch between receiving and transmitting.
    pub switching: Duration,
    /// The time from the end of a block until the modem has decoded it.
    pub decoding: Duration,
    /// The longest transmission, up to 127.5 s.
    pub longest: Duration,
    /// How long two stations may answer each other with data while others wait; a station that has
    /// transmitted after that only answers. Also the longest transmission meanwhile.
    pub exchange: Duration,
    /// The longest transmission while this station sends or receives more urgent messages.
    pub longest_beside_urgent: Duration,
    /// How many copies of an acknowledgement one transmission has, at least 1.
    pub ack_copies: u8,
    /// The number of successive unanswered transmissions after which a link is lost, at least 1.
    pub silences: u32,
    /// The least octets of the two addresses in a frame, 1 to 7; longer addresses take more.
    pub address_octets: u8,
    /// The most unacknowledged segments with long sequence numbers, up to 32,768.
    pub long_window: u32,
    /// The most unacknowledged segments with short sequence numbers, up to 128.
    pub short_window: u32,
    /// Extensions of Edition 3 used with stations that announce the same.
    pub extensions: Extensions,
}

/// How the data rate changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rate {
    /// The configured waveform is kept, unless the peer asks for another.
    #[default]
    Fixed,
    /// The rate rises while few frames are lost, and falls when many are. This needs waveforms identified by their
    /// preamble, and a modem that takes the waveform of each transmission from us.
    Adaptive,
    /// The modem determines the waveform, and neither we nor peers can change it. The driver reports
    /// it by [`super::Node::handle_waveform`].
    Modem,
}

/// The extensions of Edition 3 that a node supports: the enhancements EP2, 3, 5, 9 and 11.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extensions {
    /// EP2: padding frames, in our own layout.
    pub padding: bool,
    /// EP3: data in the same transmission as the request for a link.
    pub pipelined: bool,
    /// EP5: sequence numbers of 16 bits, in our own layouts.
    pub long_numbers: bool,
    /// EP9: compact confirmations between clients.
    pub compact: bool,
    /// EP11: segments of different lengths in one C_PDU.
    pub variable_segments: bool,
}

impl Extensions {
    /// All extensions.
    pub const ALL: Self = Self {
        padding: true,
        pipelined: true,
        long_numbers: true,
        compact: true,
        variable_segments: true,
    };
    /// No extensions: plain Edition 3.
    pub const NONE: Self = Self {
        padding: false,
        pipelined: false,
        long_numbers: false,
        compact: false,
        variable_segments: false,
    };

    /// The extensions with public layouts, as an engineering orderwire message lists them (EP7).
    pub(super) fn profiles(self) -> Profiles {
        let pairs = [
            (self.pipelined, Profiles::PIPELINING),
            (self.compact, Profiles::COMPACT_CONFIRM),
            (self.variable_segments, Profiles::VARIABLE_SEGMENTS),
        ];
        let has = pairs.into_iter().filter(|(has, _)| *has);
        has.fold(Profiles::default(), |all, (_, one)| all.with(one))
    }

    /// Takes the extensions that a station announces by orderwire, if `own` has them too.
    pub(super) fn learn_profiles(&mut self, own: Self, profiles: Profiles) {
        self.pipelined = own.pipelined && profiles.has(Profiles::PIPELINING);
        self.compact = own.compact && profiles.has(Profiles::COMPACT_CONFIRM);
        self.variable_segments = own.variable_segments && profiles.has(Profiles::VARIABLE_SEGMENTS);
    }

    /// Takes a station's announcement of our own layouts; a station without an announcement knows no layout of ours.
    pub(super) fn learn_ours(&mut self, own: Self, said: Option<Introduction>) {
        self.padding = own.padding && said.is_some_and(|said| said.padding);
        self.long_numbers = own.long_numbers && said.is_some_and(|said| said.long_numbers);
    }
}

impl Config {
    /// A node with a modem that transmits at once, and one other station on its frequency.
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

    /// This configuration with a modem behind TCP, which starts slowly, delivers whole blocks, and
    /// whose waveform only its operator can change.
    #[must_use]
    pub fn behind_tcp(address: Address, waveform: Waveform) -> Self {
        Self {
            rate: Rate::Modem,
            switching: MODEM_START,
            decoding: waveform.block_time(),
            ..Self::new(address, waveform)
        }
    }

    /// The longest time until a station with data to send has its turn, if all stations hear each
    /// other. One pair may have begun when nobody waited and continues until each end has had its last
    /// transmission; each other station may have an exchange before.
    #[must_use]
    pub fn turn_bound(&self) -> Duration {
        let others = match self.access {
            Access::PointToPoint => 0,
            Access::Jitter { .. } => ASSUMED_OTHERS,
            Access::Slotted { stations, .. } => u32::from(stations).saturating_sub(2),
        };
        let alone = self.access.longest_exchange(self.times(self.waveform), self.exchange);
        alone + self.longest * 2 + self.exchange * 3 * others
    }

    /// The longest delay of a short U_PDU of the highest priority beside bulk data in the same
    /// direction: the answer to a transmission that has just ended, a slot, and its own transmission.
    #[must_use]
    pub fn urgent_bound(&self) -> Duration {
        let times = self.times(self.waveform);
        let slots = self.access.wait_for_others(times);
        let own = self.switching + self.waveform.air_time(SHORT_MESSAGE) + self.decoding;
        times.answer + own + times.gather + slots + own
    }

    /// The longest delay beside bulk data in the opposite direction, if the sender of that has
    /// received an equally urgent message recently.
    #[must_use]
    pub fn urgent_bound_against(&self) -> Duration {
        self.switching + self.longest_beside_urgent + self.urgent_bound()
    }

    /// How long a soft link stays up without data: at least until others have had their turn.
    pub(super) fn idle(&self) -> Duration {
        match self.access {
            Access::PointToPoint => self.link.idle,
            Access::Jitter { .. } | Access::Slotted { .. } => {
                self.link.idle + self.turn_bound() * 2
            }
        }
    }

    /// The durations on the air with this waveform.
    pub(super) fn times(&self, waveform: Waveform) -> cas::Times {
        // A preamble is recognised after switching, the preamble itself, and the modem's delay.
        let slot = self.switching + waveform.preamble() + RECOGNITION;
        // The far end must decode the last block before it answers, and the end is announced in half
        // seconds.
        let answer = self.decoding + policy::EOT_UNIT + self.gather + slot + MARGIN;
        cas::Times { gather: self.gather, slot, answer }
    }
}

/// Octets on the air of a short message: a U_PDU of about 100 octets.
const SHORT_MESSAGE: usize = 200;
/// The assumed number of other stations where the configuration does not tell it.
const ASSUMED_OTHERS: u32 = 8;
/// The longest time from the end of a preamble until a modem reports it.
const RECOGNITION: Duration = Duration::from_millis(300);
/// A margin for propagation and for inaccurate clocks.
const MARGIN: Duration = Duration::from_millis(200);

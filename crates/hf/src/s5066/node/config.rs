//! The configuration of a node: its address, and its behaviour where the standard leaves a choice.

use std::time::Duration;

use base::parameter::{Kind, Rule, Value};

use super::super::cas::{self, Access};
use super::super::dts::policy;
use super::super::dts::wire::Extensions as Profiles;
use super::super::{Address, sis};
use super::introduction::Introduction;
use crate::modem::Waveform;

/// The longest time from the command to transmit until the preamble of a modem behind TCP, which
/// fills its buffers first.
const MODEM_START: Duration = Duration::from_millis(500);

/// The longest random wait for the frequency unless told otherwise: some slots of the slowest
/// waveforms.
pub const JITTER: Duration = Duration::from_secs(5);

base::parameters! {
    /// Parameters of a node that users may set.
    pub static PARAMETERS = "s5066";

    /// The configuration of a node.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from new(address: Address, waveform: Waveform) {
        /// Rate and interleaver that the node transmits with, or begins with.
        #[allowed(Kind::Text {
            allowed: "rate and interleaver, such as \"9600/short\"",
            check: |text| match text.parse::<Waveform>() {
                Ok(_) => Ok(()),
                Err(why) => Err(format!("{text:?} is not allowed: {why}")),
            },
            examples: &["75/long", "9600/short"],
        })]
        pub waveform: Waveform = waveform;

        /// How stations share the frequency: two that alternate, a random wait, or slots.
        #[allowed(Kind::Word(&["point-to-point", "jitter", "slotted"]))]
        #[get(|it| access(it.access))]
        #[set(|it, to| {
            it.access = match to.text() {
                "jitter" => Access::Jitter { limit: JITTER },
                "slotted" => Access::Slotted { position: 0, stations: 2 },
                _ => Access::PointToPoint,
            }
        })]
        pub access: Access = Access::default();

        /// The longest random wait, 5 s unless given.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(600)))]
        #[only("access = \"jitter\"", |it| matches!(it.access, Access::Jitter { .. }))]
        #[get(|it| match it.access {
            Access::Jitter { limit } => limit.into(),
            Access::PointToPoint | Access::Slotted { .. } => Value::Absent,
        })]
        #[set(|it, to| it.access = Access::Jitter { limit: to.period() })]
        "jitter";

        /// The longest transmission.
        #[allowed(Kind::period(Duration::from_secs(1)..=policy::MAX_TRANSMISSION))]
        #[set(|it, to| {
            it.longest = to.period();
            // The default must fit.
            it.longest_beside_urgent = it.longest_beside_urgent.min(it.longest);
        })]
        pub longest: Duration = policy::MAX_TRANSMISSION;

        /// How long stations may answer each other with data while others wait, and their longest transmission then.
        #[allowed(Kind::period(Duration::from_secs(5)..=Duration::from_secs(600)))]
        pub exchange: Duration = Duration::from_secs(60);

        /// The longest transmission while something more urgent goes to or comes from the station.
        #[allowed(Kind::period(Duration::from_secs(1)..=policy::MAX_TRANSMISSION))]
        pub longest_beside_urgent: Duration = Duration::from_secs(15);

        /// How long the modem takes from the command to transmit to its preamble.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(10)))]
        pub switching: Duration = Duration::from_millis(100);

        /// Requests for a link before a call fails.
        #[allowed(Kind::count(1..=20))]
        "calls" at link.calls;

        /// How long a soft link stays up without data.
        #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
        "idle" at link.idle;

        /// How often an acknowledgement is sent in one transmission.
        #[allowed(Kind::count(1..=5))]
        pub ack_copies: u8 = 2;

        /// Clients that may be connected at a time.
        #[allowed(Kind::count(1..=256))]
        "clients" at sis.limits.max_clients;

        /// Whether the node sends without acknowledgement only, and makes no links.
        #[allowed(Kind::Flag)]
        "broadcast-only" at sis.is_broadcast_only;

        /// Whether the node does nothing beyond Edition 3 of the standard.
        #[allowed(Kind::Flag)]
        #[get(|it| (it.extensions == Extensions::NONE && !it.sis.has_messages).into())]
        #[set(|it, to| {
            if to.flag() {
                it.extensions = Extensions::NONE;
                it.sis.has_messages = false;
            }
        })]
        "edition-3";

        /// The node's address.
        pub address: Address = address;

        /// How the data rate changes.
        pub rate: Rate = Rate::default();

        /// The configuration of the interface for clients.
        pub sis: sis::Config = sis::Config::default();

        /// The timeouts and retries of links.
        pub link: cas::link::Config = cas::link::Config::default();

        /// The most links at a time; further ones are refused.
        pub links: usize = 16;

        /// The most stations that are remembered. Beyond it, the station that was silent for longest and has no link is
        /// forgotten.
        pub peers: usize = 64;

        /// The delay of an answer after a reception, so that applications' own answers go along with it.
        pub gather: Duration = Duration::from_millis(100);

        /// The time from the end of a block until the modem has decoded it.
        pub decoding: Duration = Duration::from_millis(50);

        /// The number of successive unanswered transmissions after which a link is lost, at least 1.
        pub silences: u32 = 8;

        /// The least octets of the two addresses in a frame, 1 to 7; longer addresses take more.
        pub address_octets: u8 = 1;

        /// The most unacknowledged segments with long sequence numbers, up to 32,768.
        pub long_window: u32 = 32_768;

        /// The most unacknowledged segments with short sequence numbers, up to 128.
        pub short_window: u32 = 128;

        /// Extensions of Edition 3 used with stations that announce the same.
        pub extensions: Extensions = Extensions::ALL;
    }

    rules [Rule {
        names: &["longest-beside-urgent", "longest"],
        allowed: "longest-beside-urgent is at most longest",
        holds: |it| it.longest_beside_urgent <= it.longest,
    }]
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
    pub(crate) fn profiles(self) -> Profiles {
        let pairs = [
            (self.pipelined, Profiles::PIPELINING),
            (self.compact, Profiles::COMPACT_CONFIRM),
            (self.variable_segments, Profiles::VARIABLE_SEGMENTS),
        ];
        let has = pairs.into_iter().filter(|(has, _)| *has);
        has.fold(Profiles::default(), |all, (_, one)| all.with(one))
    }

    /// Takes the extensions that a station announces by orderwire, if `own` has them too.
    pub(crate) fn learn_profiles(&mut self, own: Self, profiles: Profiles) {
        self.pipelined = own.pipelined && profiles.has(Profiles::PIPELINING);
        self.compact = own.compact && profiles.has(Profiles::COMPACT_CONFIRM);
        self.variable_segments = own.variable_segments && profiles.has(Profiles::VARIABLE_SEGMENTS);
    }

    /// Takes a station's announcement of our own layouts; a station without an announcement knows no layout of ours.
    pub(crate) fn learn_ours(&mut self, own: Self, said: Option<Introduction>) {
        self.padding = own.padding && said.is_some_and(|said| said.padding);
        self.long_numbers = own.long_numbers && said.is_some_and(|said| said.long_numbers);
    }
}

impl Config {
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
    pub(crate) fn idle(&self) -> Duration {
        match self.access {
            Access::PointToPoint => self.link.idle,
            Access::Jitter { .. } | Access::Slotted { .. } => {
                self.link.idle + self.turn_bound() * 2
            }
        }
    }

    /// The durations on the air with this waveform.
    pub(crate) fn times(&self, waveform: Waveform) -> cas::Times {
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

base::parameters! {
    /// The slot of a station among the stations with slots; a simulated station has the place given in its file.
    pub static SLOT: Config = "s5066-slot" {
        /// How many stations have slots, 2 unless given.
        #[allowed(Kind::count(2..=64))]
        #[only(SLOTTED, is_slotted)]
        #[get(|it| slot(it.access).map(|(_, stations)| stations).into())]
        #[set(|it, to| {
            if let Access::Slotted { stations, .. } = &mut it.access {
                *stations = to.count();
            }
        })]
        "stations";

        /// The slot of this station, from 1; it has to be given.
        #[allowed(Kind::count(1..=64))]
        #[only(SLOTTED, is_slotted)]
        #[get(|it| slot(it.access).map(|(slot, _)| slot).into())]
        #[set(|it, to| {
            if let Access::Slotted { position, .. } = &mut it.access {
                *position = to.count::<u8>().saturating_sub(1);
            }
        })]
        "slot";
    }

    rules [Rule {
        names: &["slot", "stations"],
        allowed: "slot is at most stations",
        holds: |it| slot(it.access).is_none_or(|(slot, stations)| slot <= stations),
    }]
}

const SLOTTED: &str = "access = \"slotted\"";

fn is_slotted(config: &Config) -> bool {
    slot(config.access).is_some()
}

/// The slot, from 1, and how many there are.
fn slot(access: Access) -> Option<(u8, u8)> {
    match access {
        Access::Slotted { position, stations } => Some((position + 1, stations)),
        Access::Jitter { .. } | Access::PointToPoint => None,
    }
}

fn access(access: Access) -> Value {
    let name = match access {
        Access::Jitter { .. } => "jitter",
        Access::PointToPoint => "point-to-point",
        Access::Slotted { .. } => "slotted",
    };
    Value::Text(name.to_owned())
}

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    fn node(access: Access) -> Config {
        Config { access, ..Config::new(Address::node(1), "9600/short".parse().unwrap()) }
    }

    #[test]
    fn each_row_sets_what_it_says() {
        let jitter = node(Access::Jitter { limit: JITTER });
        let slotted = node(Access::Slotted { position: 0, stations: 2 });

        prove(&PARAMETERS, &[node(Access::PointToPoint), jitter]);
        prove(&SLOT, &[slotted]);
    }

    #[test]
    fn a_short_longest_transmission_is_so_beside_urgent_traffic_too() {
        let mut config = node(Access::PointToPoint);

        let given = |name| (name == "longest").then_some(Written::Text("3s"));
        PARAMETERS.apply(&mut config, given).unwrap();

        assert_eq!(config.longest_beside_urgent, Duration::from_secs(3));
    }

    #[test]
    fn what_is_not_allowed_is_said_with_what_is() {
        let refused = |given: &[(&str, Written<'static>)]| {
            let given = |name| given.iter().find(|it| it.0 == name).map(|it| it.1.clone());
            PARAMETERS.apply(&mut node(Access::PointToPoint), given).unwrap_err().what
        };

        for (name, written, expected) in [
            ("ack-copies", Written::Integer(257), "257 is not allowed: 1 to 5"),
            ("calls", Written::Integer(-1), "-1 is not allowed: 1 to 20"),
            ("exchange", Written::Text("4.9s"), "\"4.9s\" is not allowed: 5s to 10min"),
            ("longest", Written::Text("127501ms"), "\"127501ms\" is not allowed: 1s to 127.5s"),
            ("jitter", Written::Text("1s"), "it is for access = \"jitter\""),
        ] {
            assert_eq!(refused(&[(name, written)]), expected);
        }
        let both =
            [("longest", Written::Text("9s")), ("longest-beside-urgent", Written::Text("9.001s"))];
        assert_eq!(
            refused(&both),
            "longest-beside-urgent = \"9.001s\", longest = \"9s\" are not allowed together: \
             longest-beside-urgent is at most longest"
        );
    }
}

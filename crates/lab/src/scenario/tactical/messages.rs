//! Messages from any node to any node: their parameters.

use std::time::Duration;

use base::parameter::{Kind, Rule, names};
use base::time::Time;
use sar::Precedence;
use sim::app::messages::Carrier;

use super::{DAY, INTERVAL};

base::parameters! {
    /// Parameters of messages.
    pub static MESSAGES = "messages";

    /// Messages from any node to others, at random times; by default 240 an hour with 496 octets each.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Messages from default() {
        /// What brings them: UDP alone, S/R over UDP, or TCP.
        #[allowed(Kind::Word(&names(&OVER)))]
        pub over: Over = Over::default();

        /// The mean time between two messages of all nodes together, exponentially distributed.
        #[allowed(INTERVAL)]
        pub interval: Duration = Duration::from_secs(15);

        /// What each carries.
        #[allowed(Kind::count(16..=65_000).of("octets"))]
        pub payload: usize = 496;

        /// How many nodes each message goes to.
        #[allowed(Kind::count(1..=64).of("nodes"))]
        pub destinations: usize = 1;

        /// Whether a message to several is sent to 224.0.0.1, which reaches all on the first net, radio or link of a
        /// node, and not to each; to at most nine of them with the list of RFC 1770.
        #[allowed(Kind::Flag)]
        pub group: bool = false;

        /// How urgent they are: 0 is routine, 5 is critical. It is in the IP header of all packets.
        #[allowed(Kind::count(0..=5))]
        #[get(|it| it.precedence.level().into())]
        #[set(|it, to| it.precedence = Precedence::new(to.count()))]
        pub precedence: Precedence = Precedence::ROUTINE;

        /// The port that they go to; S/R has it in its header.
        #[allowed(Kind::count(1..=65_535))]
        pub port: u16 = 1_581;

        /// After how long a message is worth nothing; for ever unless given.
        #[allowed(Kind::period(Duration::from_millis(1)..=DAY))]
        #[only("over = \"sar\"", |it: &Messages| it.over == Over::Sar)]
        pub lifetime: Option<Duration> = None;

        /// For how long a connection is kept that has nothing to send; with 0s each message has its own.
        #[allowed(Kind::period(Duration::ZERO..=DAY))]
        #[only("over = \"tcp\"", |it: &Messages| it.over == Over::Tcp)]
        pub keep: Duration = Duration::ZERO;

        /// The nodes.
        pub nodes: Vec<usize> = Vec::new();

        /// When they begin.
        pub start: Time = Time::ZERO;

        /// When they stop.
        pub stop: Option<Time> = None;

        /// S/R of all nodes, if S/R carries the messages.
        pub sar: sar::Config = sar::Config::default();

        /// TCP of all nodes, if TCP carries the messages.
        pub tcp: tcp::Config = tcp::Config::default();
    }

    rules [Rule {
        names: &["group", "over"],
        allowed: "`group` is not for TCP",
        holds: |it| !it.group || it.over != Over::Tcp,
    }]
}

/// What brings messages.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Over {
    /// S/R over UDP.
    Sar,
    /// TCP.
    Tcp,
    /// UDP alone.
    #[default]
    Udp,
}

base::words!(Over: OVER);

const OVER: [(&str, Over); 3] = [("udp", Over::Udp), ("sar", Over::Sar), ("tcp", Over::Tcp)];

impl Messages {
    /// What brings them.
    pub(crate) fn carrier(&self) -> Carrier {
        match self.over {
            Over::Sar => Carrier::Sar(Box::new(self.sar)),
            Over::Tcp => Carrier::Tcp { tcp: Box::new(self.tcp), keep: self.keep },
            Over::Udp => Carrier::Udp,
        }
    }
}

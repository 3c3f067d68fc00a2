//! Messages from any node to any node: their parameters.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};
use base::time::Time;
use sar::Precedence;
use sim::app::messages::Carrier;

use super::{DAY, INTERVAL};

/// Messages from any node to others, at random times.
#[derive(Clone, Debug, PartialEq)]
pub struct Messages {
    /// The nodes.
    pub nodes: Vec<usize>,
    /// When they begin.
    pub start: Time,
    /// When they stop.
    pub stop: Option<Time>,
    /// The mean time between two messages of all nodes together, exponentially distributed.
    pub interval: Duration,
    /// Octets of each.
    pub payload: usize,
    /// How many destinations each has.
    pub destinations: usize,
    /// Whether those to several are sent to all at once.
    pub group: bool,
    /// How urgent they are.
    pub precedence: Precedence,
    /// The port of the receivers.
    pub port: u16,
    /// What brings them.
    pub over: Over,
    /// After how long S/R gives one up.
    pub lifetime: Option<Duration>,
    /// For how long a TCP connection is kept that has nothing to send.
    pub keep: Duration,
    /// S/R of all nodes, if S/R carries the messages.
    pub sar: sar::Config,
    /// TCP of all nodes, if TCP carries the messages.
    pub tcp: tcp::Config,
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

const OVER: [(&str, Over); 3] = [("udp", Over::Udp), ("sar", Over::Sar), ("tcp", Over::Tcp)];

/// Parameters of messages.
pub static MESSAGES: Table<Messages> = Table {
    name: "messages",
    parameters: &[
        Parameter::new(
            "over",
            Kind::Word(&names(&OVER)),
            "What brings them: UDP alone, S/R over UDP, or TCP.",
            |it| word(&OVER, &it.over),
            |it, to| it.over = named(&OVER, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "interval",
            INTERVAL,
            "The mean time between two messages of all nodes together, exponentially distributed.",
            |it| it.interval.into(),
            |it, to| it.interval = to.period(),
        ),
        Parameter::new(
            "payload",
            Kind::Count { least: 16, most: 65_000, unit: "octets" },
            "What each carries.",
            |it| it.payload.into(),
            |it, to| it.payload = to.count(),
        ),
        Parameter::new(
            "destinations",
            Kind::Count { least: 1, most: 64, unit: "nodes" },
            "How many nodes each message goes to.",
            |it| it.destinations.into(),
            |it, to| it.destinations = to.count(),
        ),
        Parameter::new(
            "group",
            Kind::Flag,
            "Whether a message to several is sent to 224.0.0.1, which reaches all on the first net, radio or link of a node, \
             and not to each; to at most nine of them with the list of RFC 1770.",
            |it| it.group.into(),
            |it, to| it.group = to.flag(),
        ),
        Parameter::new(
            "precedence",
            Kind::Count { least: 0, most: 5, unit: "" },
            "How urgent they are: 0 is routine, 5 is critical. It is in the IP header of all packets.",
            |it| it.precedence.level().into(),
            |it, to| it.precedence = Precedence::new(to.count()),
        ),
        Parameter::new(
            "port",
            Kind::Count { least: 1, most: 65_535, unit: "" },
            "The port that they go to; S/R has it in its header.",
            |it| it.port.into(),
            |it, to| it.port = to.count(),
        ),
        Parameter::new(
            "lifetime",
            Kind::Period { least: Duration::from_millis(1), most: DAY },
            "After how long a message is worth nothing; for ever unless given.",
            |it: &Messages| it.lifetime.map_or(Value::Absent, Value::Period),
            |it, to| it.lifetime = Some(to.period()),
        )
        .only_with("over = \"sar\"", |it: &Messages| it.over == Over::Sar),
        Parameter::new(
            "keep",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "For how long a connection is kept that has nothing to send; with 0s each message has its own.",
            |it: &Messages| it.keep.into(),
            |it, to| it.keep = to.period(),
        )
        .only_with("over = \"tcp\"", |it: &Messages| it.over == Over::Tcp),
    ],
    rules: &[Rule {
        names: &["group", "over"],
        allowed: "`group` is not for TCP.",
        holds: |it| !it.group || it.over != Over::Tcp,
    }],
};

impl Default for Messages {
    /// 240 an hour with 496 octets each.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            start: Time::ZERO,
            stop: None,
            interval: Duration::from_secs(15),
            payload: 496,
            destinations: 1,
            group: false,
            precedence: Precedence::ROUTINE,
            port: 1_581,
            over: Over::default(),
            lifetime: None,
            keep: Duration::ZERO,
            sar: sar::Config::default(),
            tcp: tcp::Config::default(),
        }
    }
}

impl Messages {
    /// What brings them.
    pub(super) fn carrier(&self) -> Carrier {
        match self.over {
            Over::Sar => Carrier::Sar(Box::new(self.sar)),
            Over::Tcp => Carrier::Tcp { tcp: Box::new(self.tcp), keep: self.keep },
            Over::Udp => Carrier::Udp,
        }
    }
}

//! The measures of a run, for metrics to combine.

/// A quantity that a metric may have in it.
#[derive(Debug)]
pub struct Measure {
    /// The name in a metric.
    pub name: &'static str,
    /// Its unit; nothing if it is a plain number.
    pub unit: &'static str,
    /// What it is.
    pub meaning: &'static str,
}

/// All of them.
pub static MEASURES: [Measure; COUNT] = [
    Measure { name: "c", unit: "", meaning: "the completion rate, 0 to 1" },
    Measure {
        name: "d",
        unit: "s",
        meaning: "the mean delay of what was delivered, infinite if a flow failed",
    },
    Measure {
        name: "dmax",
        unit: "s",
        meaning: "the longest delay of what was delivered, infinite if a flow failed",
    },
    Measure { name: "d90", unit: "s", meaning: "the delay within which 90 % of all messages came" },
    Measure { name: "t", unit: "bit/s", meaning: "bits sent on all media, a second of `duration`" },
    Measure { name: "goodput", unit: "bit/s", meaning: "what applications received in a second" },
    Measure { name: "offered", unit: "", meaning: "transfers, datagrams or messages to deliver" },
    Measure { name: "delivered", unit: "", meaning: "those that were" },
    Measure {
        name: "told",
        unit: "",
        meaning: "the share of messages that senders know to have come",
    },
    Measure { name: "octets", unit: "octets", meaning: "octets sent on all media" },
    Measure { name: "packets", unit: "", meaning: "packets sent on all media" },
    Measure { name: "lost", unit: "", meaning: "packets lost by links" },
    Measure { name: "dropped", unit: "", meaning: "packets dropped because a queue was full" },
    Measure { name: "retransmissions", unit: "", meaning: "TCP segments sent again" },
    Measure { name: "timeouts", unit: "", meaning: "how often a timer of TCP expired" },
    Measure {
        name: "connect",
        unit: "s",
        meaning: "the mean time to open a TCP connection, infinite if one was never open",
    },
    Measure { name: "jitter", unit: "s", meaning: "the mean variation of the delay (RFC 3550)" },
    Measure { name: "duplicates", unit: "", meaning: "what the receiver had already" },
    Measure {
        name: FAILED,
        unit: "",
        meaning: "flows that failed: a transfer that is not complete, a stream of which nothing came",
    },
];

pub const COUNT: usize = 19;
/// The measure that stands beside all others.
pub const FAILED: &str = "failed";
/// The measures that show by themselves how much was delivered.
pub const OF_DELIVERY: [&str; 6] = ["c", "d90", "delivered", FAILED, "goodput", "told"];

/// The measurements of a run, in the order of [`MEASURES`]. A measure without data is not a number, and the delay of
/// a failed flow is infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured(pub [f64; COUNT]);

impl Measured {
    /// The measure of this name; not a number if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        let place = MEASURES.iter().position(|measure| measure.name == name);
        place.map_or(f64::NAN, |place| self.0[place])
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        if let Some(place) = MEASURES.iter().position(|measure| measure.name == name) {
            self.0[place] = value;
        }
    }
}

//! The results of tactical traffic, for programs (JSON) and people (text).

use serde::Serialize;

/// The result of the BGP sessions of a run. A message in flight at the end counts as not arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BgpReport {
    /// Connections that were asked for.
    pub connects: u64,
    /// Sessions on which both ends had said OPEN, counted at both ends.
    pub established: u64,
    /// Connections given up because the peer did not answer (R2).
    pub timed_out: u64,
    /// Connections that were refused or reset.
    pub reset: u64,
    /// How often TCP warned of an unresponsive peer (R1).
    pub warnings: u64,
    /// Connections refused because all passive opens were taken.
    pub no_passive_open: u64,
    /// Messages that were to be sent, those for peers without a session included.
    pub messages: u64,
    /// Of these, how many came.
    pub delivered: u64,
    /// How many of all came; null if there were none.
    pub completion: Option<f64>,
    /// Mean seconds from the making of a message, or of the connection that it waits for, to its last octet.
    pub delay_s: Option<f64>,
    /// The longest.
    pub longest_delay_s: Option<f64>,
    /// Packets of TCP on all links together, each counted once for each link.
    pub tcp_packets: u64,
    /// Their octets, headers of IP included.
    pub tcp_octets: u64,
}

/// The result of the messages of a run. A message in flight at the end counts as not arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessagesReport {
    /// Messages sent.
    pub sent: u64,
    /// The same, counted once for each destination.
    pub expected: u64,
    /// Of these, how many came.
    pub received: u64,
    /// The share of messages that arrived; null without messages.
    pub completion: Option<f64>,
    /// Mean seconds under way.
    pub delay_s: Option<f64>,
    /// Seconds within which nine of ten messages arrived; null if fewer arrived.
    pub delay_90_s: Option<f64>,
    /// The longest.
    pub longest_delay_s: Option<f64>,
    /// Messages whose senders were told of their arrival.
    pub told: u64,
    /// The share of all; null if there were none.
    pub told_share: Option<f64>,
    /// Mean seconds until they were told.
    pub told_after_s: Option<f64>,
    /// How many were given up or not taken.
    pub failed: u64,
    /// TCP connections that were established.
    pub set_up: u64,
    /// Mean seconds that this took.
    pub set_up_s: Option<f64>,
    /// Messages that came more than once.
    pub again: u64,
    /// Messages for which a router reported no route.
    pub errors: u64,
    /// What S/R counted in each node, as in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sar: Vec<sar::Stats>,
}

/// Seconds that may be missing.
fn seconds(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), |value| format!("{value:.3} s"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{:.1}%", 100.0 * value))
}

impl BgpReport {
    pub(crate) const HEAD: [&'static str; 8] = [
        "messages",
        "came",
        "delay",
        "longest",
        "sessions",
        "timed out",
        "refused",
        "octets of TCP",
    ];

    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.messages.to_string(),
            percent(self.completion),
            seconds(self.delay_s),
            seconds(self.longest_delay_s),
            (self.established / 2).to_string(),
            self.timed_out.to_string(),
            self.reset.to_string(),
            self.tcp_octets.to_string(),
        ]
    }
}

impl MessagesReport {
    pub(crate) const HEAD: [&'static str; 9] =
        ["sent", "came", "delay", "longest", "told", "after", "failed", "set-up", "no way"];

    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.sent.to_string(),
            percent(self.completion),
            seconds(self.delay_s),
            seconds(self.longest_delay_s),
            percent(self.told_share),
            seconds(self.told_after_s),
            self.failed.to_string(),
            seconds(self.set_up_s),
            self.errors.to_string(),
        ]
    }
}

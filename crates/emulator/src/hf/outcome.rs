//! The outcome of an exchange, for reports.

use base::time::Time;
use hf::modem::Waveform;

use super::observer::Tally;

/// The outcome of one node.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The node's transmissions and receptions.
    pub tally: Tally,
    /// Octets of U_PDUs accepted from the node's clients.
    pub octets_taken: u64,
    /// Octets of U_PDUs delivered to the node's clients.
    pub octets_delivered: u64,
    /// U_PDUs delivered to the node's clients.
    pub u_pdus_delivered: u64,
    /// U_PDUs of the node's clients that failed or expired.
    pub u_pdus_failed: u64,
    /// Primitives of the node's clients that were unreadable, or not for a client to send.
    pub primitives_invalid: u64,
    /// Zero octets sent because this machine was late.
    pub underruns: u64,
    /// Connections of the node's clients.
    pub connections: gateway::bearer::server::Stats,
}

/// The share of the waveform's capacity used for delivered octets, from the first transmission to the end of the
/// last.
#[must_use]
pub fn utilisation(ends: &[Outcome; 2], waveform: Waveform) -> f64 {
    let first = ends.iter().filter_map(|end| end.tally.first).min();
    let last = ends.iter().filter_map(|end| end.tally.last).max();
    let (Some(first), Some(last)) = (first, last) else { return 0.0 };
    let seconds = Time::since(last, first).as_secs_f64();
    let delivered: u64 = ends.iter().map(|end| end.octets_delivered).sum();
    let carried = f64::from(waveform.bits_per_s()) / 8.0 * seconds;
    if carried > 0.0 { delivered as f64 / carried } else { 0.0 }
}

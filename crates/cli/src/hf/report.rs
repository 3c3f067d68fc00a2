//! What came of a run, for people and for programs.

use std::io::{self, Write as _};
use std::time::Duration;

use proto::time::Time;
use serde_json::{Value, json};

use super::observer::Tally;
use super::options::Plan;

/// Both nodes, at the end.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) seed: u64,
    pub(super) elapsed: Duration,
    pub(super) ends: [Node; 2],
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) tally: Tally,
    /// Octets of U_PDUs that its clients gave, and that were delivered to them.
    pub(super) octets_taken: u64,
    pub(super) octets_delivered: u64,
    pub(super) u_pdus_delivered: u64,
    pub(super) u_pdus_failed: u64,
    /// Octets of zero that went out because this machine was late.
    pub(super) underruns: u64,
    pub(super) connections: gateway::bearer::server::Stats,
}

impl Report<'_> {
    /// Prints it to standard output.
    pub(super) fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.plan.is_json {
            return writeln!(out, "{}", self.json());
        }
        let (waveform, channel) = (self.plan.waveform, self.plan.channel);
        writeln!(
            out,
            "{:.1} s at {waveform}, channel {channel}, seed {}",
            self.elapsed.as_secs_f64(),
            self.seed
        )?;
        for (name, end, node) in
            [("A", &self.plan.ends[0], &self.ends[0]), ("B", &self.plan.ends[1], &self.ends[1])]
        {
            let Tally { transmissions, on_air, data, repeats, acks, control, .. } = node.tally;
            let Tally { heard, heard_damaged, .. } = node.tally;
            writeln!(out, "{name}, {}", end.address)?;
            writeln!(
                out,
                "  sent       {transmissions:>6} transmissions, {:.1} s on the air",
                on_air.as_secs_f64()
            )?;
            writeln!(
                out,
                "  frames     {data:>6} of data, {repeats} again, {acks} acknowledgements, \
                 {control} for links"
            )?;
            writeln!(out, "  heard      {heard:>6} frames, {heard_damaged} of them damaged")?;
            writeln!(
                out,
                "  clients    {:>6} connections; {} octets taken, {} delivered, {} U_PDUs failed",
                node.connections.accepted,
                node.octets_taken,
                node.octets_delivered,
                node.u_pdus_failed,
            )?;
            if node.underruns > 0 {
                let octets = node.underruns;
                writeln!(out, "  {octets} octets were late: this machine is too busy")?;
            }
        }
        if self.ends.iter().all(|node| node.tally.transmissions == 0) {
            return Ok(());
        }
        writeln!(
            out,
            "utilisation {:.1} %: octets delivered, of what fits between the first transmission \
             and the last",
            self.utilisation() * 100.0
        )
    }

    fn json(&self) -> Value {
        let node = |end: usize| {
            let node = &self.ends[end];
            let tally = &node.tally;
            let connections = &node.connections;
            json!({
                "address": self.plan.ends[end].address.to_string(),
                "transmissions": tally.transmissions,
                "on_air_s": millis(tally.on_air),
                "data": tally.data,
                "repeats": tally.repeats,
                "acks": tally.acks,
                "control": tally.control,
                "heard": tally.heard,
                "heard_damaged": tally.heard_damaged,
                "octets_taken": node.octets_taken,
                "octets_delivered": node.octets_delivered,
                "u_pdus_delivered": node.u_pdus_delivered,
                "u_pdus_failed": node.u_pdus_failed,
                "underruns": node.underruns,
                "connections_accepted": connections.accepted,
                "connections_refused": connections.refused,
                "connections_closed": connections.closed,
                "connections_lost": connections.lost,
                "connections_stalled": connections.stalled,
            })
        };
        json!({
            "waveform": self.plan.waveform.to_string(),
            "channel": self.plan.channel.to_string(),
            "seed": self.seed,
            "seconds": millis(self.elapsed),
            "utilisation": (self.utilisation() * 1e4).round() / 1e4,
            "a": node(0),
            "b": node(1),
        })
    }

    /// Octets delivered, of those that the waveform carries between the first transmission and the
    /// end of the last.
    pub(super) fn utilisation(&self) -> f64 {
        let tallies = || self.ends.iter().map(|node| node.tally);
        let first = tallies().filter_map(|tally| tally.first).min();
        let last = tallies().filter_map(|tally| tally.last).max();
        let (Some(first), Some(last)) = (first, last) else { return 0.0 };
        let seconds = Time::since(last, first).as_secs_f64();
        let delivered: u64 = self.ends.iter().map(|node| node.octets_delivered).sum();
        let carried = f64::from(self.plan.waveform.bits_per_s()) / 8.0 * seconds;
        if carried > 0.0 { delivered as f64 / carried } else { 0.0 }
    }
}

/// Seconds with three digits.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}

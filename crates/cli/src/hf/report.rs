//! Prints the results of a run, for people and for programs.

use std::io::{self, Write as _};
use std::time::Duration;

use base::readable::{octets, share, span};
use emulator::hf::{Outcome, Tally, utilisation};
use serde_json::{Value, json};

use super::options::Plan;

use crate::terminal;

/// Both nodes, at the end.
pub struct Report<'a> {
    pub plan: &'a Plan,
    pub seed: u64,
    pub elapsed: Duration,
    pub ends: [Outcome; 2],
}

impl Report<'_> {
    /// Prints it to standard output.
    pub fn print(&self) -> io::Result<()> {
        let mut out = terminal::out();
        if self.plan.is_json {
            return writeln!(out, "{}", self.json());
        }
        let (waveform, channel) = (self.plan.waveform, self.plan.channel);
        writeln!(
            out,
            "{} at {waveform}, channel {channel}, seed {}",
            span(self.elapsed.as_secs_f64()),
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
                "  sent       {transmissions:>6} transmissions, {} on the air",
                span(on_air.as_secs_f64())
            )?;
            writeln!(
                out,
                "  frames     {data:>6} of data, {repeats} again, {acks} acknowledgements, \
                 {control} for links"
            )?;
            writeln!(out, "  heard      {heard:>6} frames, {heard_damaged} of them damaged")?;
            writeln!(
                out,
                "  clients    {:>6} connections; {} taken, {} delivered, {} U_PDUs failed",
                node.connections.accepted,
                octets(node.octets_taken as f64),
                octets(node.octets_delivered as f64),
                node.u_pdus_failed,
            )?;
            let connections = &node.connections;
            let turned_away = connections.strangers + connections.crowded;
            if turned_away > 0 {
                writeln!(
                    out,
                    "  turned away {turned_away:>5} connections, of those who may not come or came too often"
                )?;
            }
            if node.primitives_invalid > 0 {
                writeln!(
                    out,
                    "  {} primitives of clients could not be read",
                    node.primitives_invalid
                )?;
            }
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
            "utilisation {}: octets delivered, of what fits between the first transmission \
             and the last",
            share(utilisation(&self.ends, self.plan.waveform))
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
                "connections_strangers": connections.strangers,
                "connections_crowded": connections.crowded,
                "primitives_invalid": node.primitives_invalid,
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
            "utilisation": (utilisation(&self.ends, self.plan.waveform) * 1e4).round() / 1e4,
            "a": node(0),
            "b": node(1),
        })
    }
}

/// Seconds with three digits.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}

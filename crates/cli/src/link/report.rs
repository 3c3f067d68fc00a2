//! Prints the counters of the link, for people and for programs.

use std::io::{self, Write as _};

use base::readable::{octets, span};
use emulator::link::Outcome;
use serde_json::json;

use super::options::Args;

use crate::terminal;

/// Both directions, at the end.
pub struct Report<'a> {
    pub args: &'a Args,
    pub seed: u64,
    pub seconds: f64,
    pub ab: Outcome,
    pub ba: Outcome,
}

impl Report<'_> {
    /// Prints it to standard output.
    pub fn print(&self) -> io::Result<()> {
        let mut out = terminal::out();
        if self.args.json {
            return writeln!(out, "{}", self.json());
        }
        let Args { a, b, .. } = self.args;
        writeln!(out, "{}, seed {}", span(self.seconds), self.seed)?;
        for (from, to, outcome) in [(a, b, &self.ab), (b, a, &self.ba)] {
            let Outcome { stats, missed, malformed, refused } = outcome;
            writeln!(out, "{from} to {to}")?;
            writeln!(
                out,
                "  received   {:>9} frames, {}; {} found the queue full",
                stats.received,
                octets(stats.received_octets as f64),
                stats.queue_full
            )?;
            writeln!(
                out,
                "  sent       {:>9} frames, {} of IP; {} lost on the link",
                stats.sent, stats.sent_ip, stats.lost
            )?;
            writeln!(
                out,
                "  delivered  {:>9} frames, {}",
                stats.delivered,
                octets(stats.delivered_octets as f64)
            )?;
            for (count, what) in [
                (stats.memory_full, "found no memory: rate times delay is too much"),
                (*missed, "came faster than this machine could take them"),
                (*malformed, "could not be understood"),
                (*refused, "were not taken by the interface: is its MTU smaller, or is it down?"),
            ] {
                if count > 0 {
                    writeln!(out, "  {count} frames {what}")?;
                }
            }
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let direction = |outcome: &Outcome| {
            let Outcome { stats, missed, malformed, refused } = outcome;
            json!({
                "received": stats.received,
                "received_octets": stats.received_octets,
                "queue_full": stats.queue_full,
                "memory_full": stats.memory_full,
                "sent": stats.sent,
                "sent_ip": stats.sent_ip,
                "sent_octets": stats.sent_octets,
                "lost": stats.lost,
                "delivered": stats.delivered,
                "delivered_octets": stats.delivered_octets,
                "missed": missed,
                "malformed": malformed,
                "refused": refused,
            })
        };
        json!({
            "a": self.args.a.to_string(),
            "b": self.args.b.to_string(),
            "seed": self.seed,
            "seconds": self.seconds,
            "ab": direction(&self.ab),
            "ba": direction(&self.ba),
        })
    }
}

//! Prints the counters of a radio channel, for people and for programs.

use std::io::{self, Write as _};

use emulator::air::{RadioHub, Stats};
use serde_json::json;
use sim::radio::{self, StationId};

use crate::air::options::Joined;
use crate::air::session::{Carried, print_frames};
use crate::terminal;

/// The whole report at the end.
pub struct Report<'a> {
    pub joined: &'a [Joined],
    pub hub: &'a RadioHub,
    pub seed: u64,
    pub carried: Carried,
}

impl Report<'_> {
    /// Prints it to standard output.
    pub fn print(&self, is_json: bool) -> io::Result<()> {
        let mut out = terminal::out();
        if is_json {
            return writeln!(out, "{}", self.json());
        }
        let end = self.carried.end;
        let width = self.joined.iter().map(|it| it.node.chars().count()).max().unwrap_or(0).max(7);
        writeln!(out, "{:.1} s, seed {}", end.as_secs_f64(), self.seed)?;
        write!(out, "{:width$}", "station")?;
        for title in ["sent", "queue full", "off", "given up", "delivered", "collisions"] {
            write!(out, " {title:>10}")?;
        }
        writeln!(out)?;
        for (Joined { node, .. }, own, radio) in self.stations() {
            write!(out, "{node:width$}")?;
            let Stats { received, queue_full, off, given_up, delivered, .. } = own;
            for count in [received, queue_full, off, given_up, delivered, radio.collisions] {
                write!(out, " {count:>10}")?;
            }
            writeln!(out)?;
        }
        let all = self.hub.medium().total();
        writeln!(
            out,
            "on the air: {} frames to one, {} to all, {} RTS, of which {} were not answered",
            all.data, all.broadcasts, all.rts, all.rts_failures
        )?;
        let unknown: u64 = self.hub.stats().map(|it| it.unknown).sum();
        let own: u64 = self.hub.stats().map(|it| it.own).sum();
        let counts = [
            (unknown, "went to all, because nobody had shown the address that they were for"),
            (own, "were for an address behind the interface that they came from"),
        ];
        print_frames(&mut out, &counts)?;
        self.carried.print(&mut out)
    }

    fn stations(&self) -> impl Iterator<Item = (&Joined, Stats, radio::Stats)> {
        let own = self.joined.iter().zip(self.hub.stats()).enumerate();
        own.map(|(index, (joined, own))| (joined, own, self.hub.medium().stats(StationId(index))))
    }

    fn json(&self) -> serde_json::Value {
        let station = |(joined, own, radio): (&Joined, Stats, radio::Stats)| {
            json!({
                "node": joined.node,
                "interface": joined.end.to_string(),
                "received": own.received,
                "queue_full": own.queue_full,
                "unknown": own.unknown,
                "own": own.own,
                "off": own.off,
                "given_up": own.given_up,
                "delivered": own.delivered,
                "data": radio.data,
                "broadcasts": radio.broadcasts,
                "rts": radio.rts,
                "failures": radio.rts_failures + radio.data_failures,
                "collisions": radio.collisions,
                "busy_s": radio.busy.as_secs_f64(),
            })
        };
        let Carried { outcome, lateness, end } = self.carried;
        json!({
            "seed": self.seed,
            "seconds": end.as_secs_f64(),
            "stations": self.stations().map(station).collect::<Vec<_>>(),
            "missed": outcome.missed,
            "malformed": outcome.malformed,
            "refused": outcome.refused,
            "late_mean_s": lateness.mean().as_secs_f64(),
            "late_longest_s": lateness.longest.as_secs_f64(),
        })
    }
}

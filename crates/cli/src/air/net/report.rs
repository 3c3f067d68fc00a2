//! Prints the counters of a net, for people and for programs.

use std::io::{self, Write as _};

use ::lab::scenario::NetStationReport;
use emulator::air::{NetHub, NetStats};
use serde_json::json;
use sim::cnr::{self, StationId};

use crate::air::options::Joined;
use crate::air::session::{Carried, Session, print_frames};
use crate::terminal;

/// The whole report at the end.
pub struct Report<'a> {
    pub session: &'a Session<'a>,
    /// Of all stations.
    pub names: &'a [String],
    pub hub: &'a NetHub,
    pub carried: Carried,
}

/// A station with its counters, and its interface, if any, with the interface's counters.
struct Line<'a> {
    name: &'a str,
    joined: Option<&'a Joined>,
    own: NetStats,
    station: cnr::Stats,
}

impl Report<'_> {
    /// Prints it to standard output.
    pub fn print(&self, is_json: bool) -> io::Result<()> {
        let mut out = terminal::out();
        if is_json {
            return writeln!(out, "{}", self.json());
        }
        let end = self.carried.end;
        let width = self.names.iter().map(|it| it.chars().count()).max().unwrap_or(0).max(7);
        writeln!(out, "{:.1} s, seed {}", end.as_secs_f64(), self.session.seed())?;
        write!(out, "{:width$}", "station")?;
        for title in [
            "sent",
            "dropped",
            "delivered",
            "on the air",
            "again",
            "acks",
            "given up",
            "collisions",
            "keyed",
        ] {
            write!(out, " {title:>10}")?;
        }
        writeln!(out)?;
        for Line { name, own, station, .. } in self.lines() {
            write!(out, "{name:width$}")?;
            let dropped = own.refused + own.too_long;
            let sent = own.received - own.resolving;
            for count in [
                sent,
                dropped,
                own.delivered,
                station.transmissions,
                station.repeats,
                station.acks,
                station.given_up,
                station.collisions + station.missed,
            ] {
                write!(out, " {count:>10}")?;
            }
            writeln!(out, " {:>8.1} s", station.keyed.as_secs_f64())?;
        }
        writeln!(out, "the net was busy for {:.0} % of the time", 100.0 * self.busy())?;
        let of = |count: fn(&NetStats) -> u64| self.hub.stats().map(|it| count(&it)).sum::<u64>();
        let no_way = self.hub.medium().total(end).no_way;
        let counts = [
            (
                of(|it| it.unknown),
                "went to all, because nobody had shown the address that they were for",
            ),
            (of(|it| it.own), "were for an address behind the interface that they came from"),
            (
                of(|it| it.too_long),
                "were longer than the net's MTU: `ip link set mtu` tells interfaces of it",
            ),
            (no_way, "were for a station to which no way leads"),
        ];
        print_frames(&mut out, &counts)?;
        self.carried.print(&mut out)
    }

    /// All stations, in the order of the scenario.
    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.names.iter().enumerate().map(|(station, name)| {
            let found = self.session.joined().iter().position(|it| it.station == station);
            Line {
                name,
                joined: found.map(|place| &self.session.joined()[place]),
                own: found.and_then(|place| self.hub.stats().nth(place)).unwrap_or_default(),
                station: self.hub.medium().stats(self.carried.end, StationId(station)),
            }
        })
    }

    /// The share of time in which stations sensed a busy net, as the mean over all stations.
    fn busy(&self) -> f64 {
        let lived = self.carried.end.as_secs_f64() * self.names.len() as f64;
        let busy = self.hub.medium().total(self.carried.end).busy.as_secs_f64();
        busy / lived.max(f64::MIN_POSITIVE)
    }

    fn json(&self) -> serde_json::Value {
        let Carried { outcome, lateness, end } = self.carried;
        let station = |Line { name, joined, own, station }: Line<'_>| {
            json!({
                "node": name,
                "interface": joined.map(|it| it.end.to_string()),
                "received": own.received,
                "resolving": own.resolving,
                "unknown": own.unknown,
                "own": own.own,
                "too_long": own.too_long,
                "refused": own.refused,
                "delivered": own.delivered,
                "net": NetStationReport::new(name, &station),
            })
        };
        json!({
            "seed": self.session.seed(),
            "seconds": end.as_secs_f64(),
            "busy": self.busy(),
            "stations": self.lines().map(station).collect::<Vec<_>>(),
            "missed": outcome.missed,
            "malformed": outcome.malformed,
            "refused": outcome.refused,
            "late_mean_s": lateness.mean().as_secs_f64(),
            "late_longest_s": lateness.longest.as_secs_f64(),
        })
    }
}

//! Tables of measured transfers, by key-up and by socket buffer.

use super::Comparison;
use crate::hf::compare::{self, Standing};
use crate::hf::link::Link;
use crate::hf::transfer::{
    BUFFER, BUFFERS, CONFIRMED, CONNECT, LATENCY, Published, Row, TOTAL, UTILISATION, buffer,
    seconds, share,
};
use crate::hf::{key_ups, radio};
use crate::prelude::*;

impl Comparison {
    pub fn tables(&self, runs: &Runs<Link>) -> Vec<Table> {
        let mut tables = vec![self.by_key_up(
            runs,
            &format!("Utilisation with a socket buffer of {}", buffer(BUFFER)),
            UTILISATION,
        )];
        tables.extend(
            [
                ("Connect time in seconds", CONNECT),
                ("Total time in seconds", TOTAL),
                ("Time until a confirmation of all data is back, in seconds", CONFIRMED),
                ("Final data latency in seconds", LATENCY),
            ]
            .map(|(title, metric)| self.by_key_up(runs, title, metric)),
        );
        tables.push(self.standings(runs));
        tables.push(self.by_buffer(runs));
        tables
    }

    fn by_key_up(&self, runs: &Runs<Link>, title: &str, metric: Metric) -> Table {
        let published = |it: Published| match metric {
            // Of that nothing was published.
            CONFIRMED => String::new(),
            UTILISATION => format!("{:.3}", it.utilisation),
            _ => it.of(metric).to_string(),
        };
        let rows = self.rows.iter().map(|&row| {
            let measured = move |key_up| {
                let estimate = runs.at(&self.link(row, key_up), metric);
                if metric == UTILISATION { share(&estimate) } else { seconds(&estimate) }
            };
            (place(row), row.published.map_or("failed".to_owned(), published), measured)
        });
        compare::table(title, &PLACE, rows)
    }

    /// How many figures each buffer beats, ties and misses.
    fn standings(&self, runs: &Runs<Link>) -> Table {
        let mut head = vec!["socket buffer".to_owned()];
        head.extend(key_ups::key_ups().map(compare::seconds));
        let rows = BUFFERS.map(|octets| {
            let of = self.radios(runs, octets).map(|radio| {
                [Standing::Beaten, Standing::Tied, Standing::Missed]
                    .map(|standing| radio.count(standing).to_string())
                    .join(" / ")
            });
            [buffer(octets)].into_iter().chain(of).collect()
        });
        Table::list(
            "Published figures beaten / tied / missed, by socket buffer and key-up",
            head,
            rows,
        )
    }

    fn by_buffer(&self, runs: &Runs<Link>) -> Table {
        let mut head: Vec<String> = PLACE.map(str::to_owned).into();
        head.extend(BUFFERS.map(buffer));
        head.push("published".to_owned());
        let rows = self.rows.iter().map(|&row| {
            let measured = BUFFERS.map(|octets| {
                let link = row.link(self.mode, radio::FASTEST, octets);
                let [used, latency] = [UTILISATION, LATENCY].map(|it| runs.at(&link, it));
                format!("{}, {} s", share(&used), seconds(&latency))
            });
            let published = |it: Published| format!("{:.3}, {} s", it.utilisation, it.latency);
            let published = row.published.map_or("failed".to_owned(), published);
            place(row).into_iter().chain(measured).chain([published]).collect()
        });
        Table::list(
            format!(
                "Utilisation and final data latency with a key-up of {}, by socket buffer",
                compare::seconds(radio::FASTEST)
            ),
            head,
            rows,
        )
    }
}

const PLACE: [&str; 2] = ["bit/s", "kB"];

fn place(row: Row) -> Vec<String> {
    vec![row.speed.to_string(), row.kilobytes.to_string()]
}

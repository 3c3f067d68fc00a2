//! What the runs say: quantiles of ratios, the worst worlds, a picture, and rows for programs.

use std::num::NonZeroU32;

use base::quantity::whole;
use serde::Serialize;

use super::{Kind, Measure, Measured, Service, World};
use crate::claim::Table;
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::words::number;

/// The shares at which quantiles are listed.
const QUANTILES: [(f64, &str); 5] =
    [(0.1, "10 %"), (0.5, "median"), (0.9, "90 %"), (0.99, "99 %"), (1.0, "worst")];
/// How many of the worst worlds are listed.
const WORST: usize = 10;
/// Ratios are drawn within these bounds.
const DRAWN: [f64; 2] = [0.05, 20.0];

/// A service beside plain IP in one world.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The world.
    pub world: World,
    /// How many runs the measures are the mean of.
    pub repeats: NonZeroU32,
    /// The service.
    pub service: Service,
    /// What plain IP did.
    pub plain: Measured,
    /// What the service did.
    pub ours: Measured,
}

impl Row {
    /// How many times worse the service is than plain IP, if the world has this measure.
    #[must_use]
    pub fn ratio(&self, measure: Measure) -> Option<f64> {
        self.ours.ratio(&self.plain, measure)
    }

    /// The command that runs this world again.
    #[must_use]
    pub fn command(&self) -> String {
        let Self { world: World { family, index, .. }, repeats, service, .. } = self;
        let repeats = match repeats.get() {
            1 => String::new(),
            repeats => format!(" --repeats {repeats}"),
        };
        format!(
            "trackway lab run worlds --seed {family} --world {index} --service {service}{repeats}"
        )
    }
}

/// The rows of all worlds that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// World by world, service by service.
    pub rows: Vec<Row>,
    /// The services that were compared.
    pub services: Vec<Service>,
    /// Whether no world is missing.
    pub is_whole: bool,
}

/// A row for programs.
#[derive(Serialize)]
struct Line<'a> {
    seed: u32,
    world: u32,
    service: &'a str,
    kinds: Vec<&'a str>,
    measure: &'a str,
    plain: f64,
    ours: f64,
    ratio: f64,
    plain_ended: bool,
    ours_ended: bool,
}

impl Results {
    /// Quantiles for each service: of the time by kind of world, and of each measure over all worlds; with
    /// `all_measures`, every measure by kind. Then the worst worlds.
    #[must_use]
    pub fn tables(&self, all_measures: bool) -> Vec<Table> {
        let mut tables = Vec::new();
        for service in &self.services {
            tables.push(self.by_measure(*service));
            for measure in Measure::ALL {
                if all_measures || measure == Measure::Time {
                    tables.push(self.by_kind(*service, measure));
                }
            }
            tables.push(self.worst(*service));
        }
        tables
    }

    /// The ratio of times over the share of worlds below it, for each service.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut series =
            vec![Series::new("as plain IP", Ink::Limit, [0.0, 100.0].map(|x| Mark::exact(x, 1.0)))];
        for (at, service) in self.services.iter().enumerate() {
            let ratios = self.of(*service).filter_map(|row| row.ratio(Measure::Time));
            series.push(curve(*service, Ink::Trace(at), ratios.collect()));
        }
        Figure {
            name: "worlds".to_owned(),
            title: "Services beside plain IP in random worlds".to_owned(),
            subtitle: "time for all long flows, relative to plain IP in the same world".to_owned(),
            x: Axis::linear("Share of worlds that do better", "%"),
            y: Axis::log("Time relative to plain IP", ""),
            series,
            note: format!("{} runs of services", self.rows.len()),
        }
    }

    /// One JSON object for each row and measure.
    ///
    /// # Errors
    /// Never with numbers that JSON knows.
    pub fn to_json_lines(&self) -> serde_json::Result<String> {
        let mut text = String::new();
        for row in &self.rows {
            for measure in Measure::ALL {
                let (plain, ours) = (row.plain.value(measure), row.ours.value(measure));
                let (Some(plain), Some(ours)) = (plain, ours) else { continue };
                let Some(ratio) = row.ratio(measure) else { continue };
                let line = Line {
                    seed: row.world.family,
                    world: row.world.index,
                    service: row.service.name(),
                    kinds: row.world.kinds().iter().map(|kind| kind.name()).collect(),
                    measure: measure.name(),
                    plain,
                    ours,
                    ratio,
                    plain_ended: row.plain.is_whole,
                    ours_ended: row.ours.is_whole,
                };
                text.push_str(&serde_json::to_string(&line)?);
                text.push('\n');
            }
        }
        Ok(text)
    }

    fn of(&self, service: Service) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.service == service)
    }

    fn by_measure(&self, service: Service) -> Table {
        let rows = Measure::ALL.into_iter().filter_map(|measure| {
            let ratios = self.of(service).filter_map(|row| row.ratio(measure));
            quantiles(measure.name(), ratios.collect())
        });
        table(format!("{service}: times worse than plain IP, all worlds"), "measure", rows)
    }

    fn by_kind(&self, service: Service, measure: Measure) -> Table {
        let rows = Kind::ALL.into_iter().filter_map(|kind| {
            let of_kind = self.of(service).filter(|row| row.world.kinds().contains(&kind));
            quantiles(kind.name(), of_kind.filter_map(|row| row.ratio(measure)).collect())
        });
        let title = format!("{service}: {}, times worse than plain IP", measure.name());
        table(title, "kind of world", rows)
    }

    fn worst(&self, service: Service) -> Table {
        let mut rows: Vec<&Row> = self.of(service).collect();
        let time = |row: &Row| row.ratio(Measure::Time).unwrap_or_default();
        rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
        let rows = rows.into_iter().take(WORST).map(|row| {
            let seconds = |it: &Measured| {
                format!("{}{}", if it.is_whole { "" } else { "~" }, number(it.time))
            };
            vec![
                number(time(row)),
                format!("{} s", seconds(&row.plain)),
                format!("{} s", seconds(&row.ours)),
                row.command(),
                row.world.to_string(),
            ]
        });
        let head = ["time", "plain", "ours", "command", "world"].map(str::to_owned).to_vec();
        let title = format!("{service}: the worst worlds by time (~ did not end)");
        Table { title, head, rows: rows.collect() }
    }
}

/// Ratios from the least to the greatest over the share of worlds below.
fn curve(service: Service, ink: Ink, mut ratios: Vec<f64>) -> Series {
    ratios.sort_by(f64::total_cmp);
    let share = |index: usize| (index as f64 + 0.5) / ratios.len() as f64 * 100.0;
    let drawn = |(index, y): (usize, &f64)| Mark::exact(share(index), y.clamp(DRAWN[0], DRAWN[1]));
    Series::new(service.name(), ink, ratios.iter().enumerate().map(drawn))
}

fn table(title: String, what: &str, rows: impl Iterator<Item = Vec<String>>) -> Table {
    let names = QUANTILES.map(|(_, name)| name);
    let head = [what, "worlds"].into_iter().chain(names).map(str::to_owned);
    Table { title, head: head.collect(), rows: rows.collect() }
}

/// A line of a table; `None` without ratios.
fn quantiles(name: &str, mut ratios: Vec<f64>) -> Option<Vec<String>> {
    if ratios.is_empty() {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank =
            whole((share * ratios.len() as f64).ceil()).and_then(|it| usize::try_from(it).ok());
        number(ratios[rank.unwrap_or(1).clamp(1, ratios.len()) - 1])
    };
    let values = QUANTILES.map(|(share, _)| at(share));
    Some([name.to_owned(), ratios.len().to_string()].into_iter().chain(values).collect())
}

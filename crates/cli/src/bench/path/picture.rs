//! The figures as pictures.

use std::path::Path;

use anyhow::Context as _;
use lab::figure::{Axis, Figure, Ink, Mark, Series, to_svg};
use whole::write_whole;

use super::Measured;
use super::network::Carrier;
use super::plan::{Cell, Load, Pattern};

const LINK: &str = "10 Mbit/s, 50 ms each way, loss in both directions";

/// Writes the pictures into a folder that exists.
pub fn write(out: &Path, measured: &[Measured]) -> anyhow::Result<()> {
    for mut figure in [goodput(measured), together(measured), offered(measured)] {
        figure.series.retain(|series| !series.marks.is_empty());
        if figure.series.is_empty() {
            continue;
        }
        let path = out.join(format!("{}.svg", figure.name));
        write_whole(&path, to_svg(&figure))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn goodput(measured: &[Measured]) -> Figure {
    let ours = |tcp| move |cell: &Cell| is(cell, Carrier::Tunnel, Pattern::Single, tcp);
    let plain = |tcp| move |cell: &Cell| is(cell, Carrier::Plain, Pattern::Single, tcp);
    let mbit = |marks: Marks| marks.value(|outcome| outcome.goodput / 1e6);
    let mut figure = picture("path-goodput", "One TCP download", Axis::linear("goodput", "Mbit/s"));
    figure.series = vec![
        series("limit in the tunnel", Ink::Limit, marks(measured, ours("cubic")).limit()),
        series("plain cubic", Ink::Tcp, mbit(marks(measured, plain("cubic")))),
        series("plain bbr", Ink::Paper, mbit(marks(measured, plain("bbr")))),
        series("tunnel, reno", Ink::Other(1), mbit(marks(measured, ours("reno")))),
        series("tunnel, bbr", Ink::Other(2), mbit(marks(measured, ours("bbr")))),
        series("tunnel, cubic", Ink::Default, mbit(marks(measured, ours("cubic")))),
    ];
    figure
}

fn together(measured: &[Measured]) -> Figure {
    let ours = |pattern| move |cell: &Cell| is(cell, Carrier::Tunnel, pattern, "cubic");
    let mbit = |pattern| marks(measured, ours(pattern)).value(|outcome| outcome.goodput / 1e6);
    let title = "One TCP download where losses come together";
    let mut figure = picture("path-bursts", title, Axis::linear("goodput", "Mbit/s"));
    figure.series = vec![
        series("limit", Ink::Limit, marks(measured, ours(Pattern::Bursts)).limit()),
        series("bursts of 5 frames", Ink::Other(1), mbit(Pattern::Bursts)),
        series("fades of 20 ms", Ink::Default, mbit(Pattern::Fades)),
    ];
    "The mean loss is as on the axis.".clone_into(&mut figure.note);
    figure
}

fn offered(measured: &[Measured]) -> Figure {
    let ours = |tcp| move |cell: &Cell| is(cell, Carrier::Tunnel, Pattern::Single, tcp);
    let times = |tcp| marks(measured, ours(tcp)).value(|outcome| outcome.offered);
    let cubic = marks(measured, ours("cubic"));
    let asked = cubic
        .0
        .iter()
        .filter_map(|one| Some(Mark::exact(one.cell.loss, one.cell.asked_offered()?)));
    let limit = cubic.0.iter().map(|one| Mark::exact(one.cell.loss, one.cell.offered_limit()));
    let title = "What a download costs";
    let axis = Axis::linear("octets on the link for each delivered", "");
    let axis = Axis { from_zero: false, ..axis };
    let mut figure = picture("path-octets", title, axis);
    figure.series = vec![
        series("least possible", Ink::Limit, limit.collect()),
        series("asked at most", Ink::Goal, asked.collect()),
        series("tunnel, reno", Ink::Other(1), times("reno")),
        series("tunnel, bbr", Ink::Other(2), times("bbr")),
        series("tunnel, cubic", Ink::Default, times("cubic")),
    ];
    figure
}

fn picture(name: &str, title: &str, y: Axis) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: LINK.to_owned(),
        x: Axis::linear("loss", "%"),
        y,
        series: Vec::new(),
        note: String::new(),
    }
}

fn series(name: &str, ink: Ink, marks: Vec<Mark>) -> Series {
    Series { name: name.to_owned(), ink, marks }
}

fn is(cell: &Cell, carrier: Carrier, pattern: Pattern, tcp: &str) -> bool {
    let load = matches!(cell.load, Load::Download(own) if own == tcp);
    load && cell.carrier == carrier && cell.pattern == pattern
}

/// The turns of one series.
struct Marks<'a>(Vec<&'a Measured>);

fn marks(measured: &[Measured], is_one: impl Fn(&Cell) -> bool) -> Marks<'_> {
    let mut ours: Vec<_> = measured.iter().filter(|one| is_one(&one.cell)).collect();
    ours.sort_by(|a, b| a.cell.loss.total_cmp(&b.cell.loss));
    Marks(ours)
}

impl Marks<'_> {
    fn value(&self, field: fn(&super::Outcome) -> f64) -> Vec<Mark> {
        let mark = |one: &&Measured| Mark::measured(one.cell.loss, &one.mean(field));
        self.0.iter().filter(|one| one.outcomes.is_some()).map(mark).collect()
    }

    /// In Mbit/s.
    fn limit(&self) -> Vec<Mark> {
        let mark = |one: &&Measured| Mark::exact(one.cell.loss, one.cell.goodput_limit() / 1e6);
        self.0.iter().map(mark).collect()
    }
}

//! Makes a verdict, tables and pictures from all items.

use super::item::{HEADERS, Item, OCTETS_GOAL, Quantity, SHARE, SPARSE_OCTETS_GOAL};
use super::matrix;
use super::scenario::Scenario;
use super::{Try, Way};
use crate::everywhere::{self, Judged as _, Ranking};
use crate::prelude::*;

/// Ratios outside this range are drawn at its ends.
const DRAWN: [f64; 2] = [0.1, 10.0];

/// The coded tunnel between two gateways, beside plain IP.
pub struct Tunnel;

impl everywhere::Service for Tunnel {
    type Scenario = Scenario;
    type Compared = Item;

    const ID: &'static str = "nc-everywhere";
    const TEXT: &'static str = "whoever switches the tunnel on never regrets it: nowhere is it slower than plain TCP, \
                                are pages or voice later, or does it take more than its share beside others";
    const TITLES: [&'static str; 3] = [
        "What is worse than without the tunnel, the worst first",
        "What these runs cannot tell, the worst first",
        "Everything, the worst first",
    ];

    fn scenarios() -> Vec<Scenario> {
        matrix::scenarios()
    }

    fn compared(runs: &Runs<Try>, number: usize, scenario: Scenario) -> Vec<Item> {
        Item::all(runs, number, scenario)
    }

    fn measured(items: &[&Item]) -> String {
        let worst = Quantity::ALL.into_iter().filter_map(|quantity| {
            let all = items.iter().filter(|item| item.quantity == quantity);
            Some(all.max_by(|a, b| a.badness().total_cmp(&b.badness()))?.text())
        });
        let places: std::collections::BTreeSet<usize> = items.iter().map(|it| it.number).collect();
        format!("in {} places; the worst: {}", places.len(), worst.collect::<Vec<_>>().join("; "))
    }

    fn reason(ranking: &Ranking<Item>) -> String {
        let (short, open, all) = (ranking.short().len(), ranking.open().len(), ranking.all().len());
        let goals = format!(
            "goodput, pages and voice may be {HEADERS} times worse, for the headers; octets on the link \
             {OCTETS_GOAL} times as many, {SPARSE_OCTETS_GOAL} without downloads; the rate beside a plain \
             flow {SHARE} times more or less; voice beside downloads may wait in a short queue besides"
        );
        if short == 0 {
            return format!("{goals}; of {all} comparisons none is worse, {open} cannot tell");
        }
        let named = ranking.named();
        format!(
            "{goals}; of {all} comparisons {short} are worse, {open} cannot tell. The worst: {named}"
        )
    }

    fn points(items: &[Item]) -> Vec<Point> {
        items.iter().flat_map(points).collect()
    }

    /// How many times worse ours is, sorted, for each quantity: what is above 1 is worse.
    fn figures(items: &[Item]) -> Vec<Figure> {
        let sorted = |(index, quantity): (usize, Quantity)| {
            let of = items.iter().filter(|item| item.quantity == quantity);
            let all = of.filter_map(|item| Some(item.worst()?.1.value().mean));
            everywhere::curve(quantity.name(), Ink::Trace(index), all, DRAWN)
        };
        let mut series = vec![everywhere::level("as without the tunnel", Ink::Limit, 1.0)];
        let drawn = [
            Quantity::Goodput,
            Quantity::Share,
            Quantity::Page,
            Quantity::VoiceMedian,
            Quantity::VoiceP99,
            Quantity::Octets,
        ];
        series.extend(drawn.into_iter().enumerate().map(sorted));
        let figure = Figure::new(
            "nc-everywhere",
            "The tunnel where there is nothing to gain, and elsewhere",
        )
        .under("Ours beside the better of the plain ways, each quantity sorted over its places")
        .over(everywhere::places())
        .up(Axis::log("Times worse", ""))
        .with(series)
        .noting("Below 1 the tunnel is better. What is beyond 0.1 and 10 is drawn there.");
        vec![figure]
    }

    fn head() -> Vec<&'static str> {
        let ways = Way::ALL.map(Way::title);
        [&["No.", "Place", "What"][..], &ways, &["Times worse", "than", "Goal"]].concat()
    }
}

/// The measurements of each way, and the ratios of ours to the others.
fn points(item: &Item) -> Vec<Point> {
    let name = item.quantity.name();
    let point = |line, y| everywhere::point(&item.scenario, item.number, line, y);
    let mut all: Vec<Point> = Way::ALL
        .into_iter()
        .map(|way| point(way.line(name), (*item.value(way), item.quantity.unit())))
        .collect();
    if item.quantity != Quantity::Share {
        let ratio =
            |way: Way| point(way.line(&format!("{name}-ratio")), (item.ratio(way), "times"));
        all.extend(Way::PLAIN.map(ratio));
    }
    all.retain(|point| point.y.runs > 0);
    all
}

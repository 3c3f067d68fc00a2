//! The number of passive opens needed by a station that others call.

use std::net::{IpAddr, Ipv4Addr};

use sim::PassiveOpens;

use super::brigade;
use super::{COMPLETION, GROUP, RUNS, bgp_of};
use crate::prelude::*;
use crate::scenario::{Built, Peers, Plan};

/// How many stations call one.
const CALLERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Stations in session with the called station.
const HEARD: Metric = "stations heard";
/// Connections refused because all passive opens were taken.
const REFUSED: Metric = "refused";
/// What a station may have in the place of one more whenever one is taken.
const OPENS: [PassiveOpens; 3] =
    [PassiveOpens::OnDemand, PassiveOpens::Fixed(1), PassiveOpens::Fixed(4)];

pub const CLAIM: Claim = Claim {
    id: "tac-connect",
    group: GROUP,
    text: "with one passive open at each station, and another one whenever it is taken, a station can be called by any \
           number of stations without knowing their number; with a single one the messages of a second source are lost",
    source: "section 2",
    experiment: || Experiment::new(calls(), judge),
};

/// Stations that call another station, each over its own needline.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Calls {
    callers: usize,
    opens: PassiveOpens,
}

fn calls() -> Vec<Calls> {
    OPENS.map(|opens| CALLERS.map(|callers| Calls { callers, opens })).concat()
}

impl Calls {
    fn plan(self, seed: u64) -> Plan {
        let base = brigade::example();
        let needline = base.links[0].config.clone();
        let mut plan = Plan::new(seed, base.duration);
        plan.passive_opens = self.opens;
        let callers: Vec<usize> =
            (1..=self.callers).map(|number| plan.add_node(format!("caller{number}"))).collect();
        let called = plan.add_node("called");
        // Of two speakers the one with the higher address is called.
        plan.nodes[called].addresses = vec![IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1))];
        for caller in &callers {
            plan.connect(*caller, called, needline.clone());
        }
        let nodes = callers.into_iter().chain([called]).collect();
        plan.bgp = base.bgp.map(|bgp| crate::scenario::Bgp { nodes, peers: Peers::Star, ..bgp });
        plan
    }
}

impl Place for Calls {
    fn cell(&self) -> Cell {
        let calls = *self;
        let name =
            Name::of("calls").with("callers", calls.callers).with("opens", series(calls.opens));
        let draws = format!("tactical calls of {}", calls.callers);
        Cell::of(name, draws, move |seed| calls.plan(seed), measure).at_most(RUNS)
    }
}

impl Drawn for Calls {
    fn line(&self) -> Line {
        let ink = match self.opens {
            PassiveOpens::OnDemand => Ink::Default,
            PassiveOpens::Fixed(1) => Ink::Tcp,
            PassiveOpens::Fixed(_) => Ink::Paper,
        };
        Line::new(series(self.opens), title(self.opens), ink)
    }

    fn x(&self) -> (f64, &'static str) {
        (self.callers as f64, "stations")
    }
}

fn series(opens: PassiveOpens) -> String {
    match opens {
        PassiveOpens::OnDemand => "on-demand".to_owned(),
        PassiveOpens::Fixed(count) => format!("fixed-{count}"),
    }
}

fn title(opens: PassiveOpens) -> String {
    match opens {
        PassiveOpens::OnDemand => "another one whenever one is taken".to_owned(),
        PassiveOpens::Fixed(1) => "one passive open".to_owned(),
        PassiveOpens::Fixed(count) => format!("{count} passive opens"),
    }
}

fn measure(mut built: Built<'_>) -> Outcome {
    let bgp = bgp_of(&mut built);
    // Both ends count a session.
    let heard = bgp.established as f64 / 2.0;
    vec![
        exact(HEARD, heard),
        exact(COMPLETION, 100.0 * bgp.completion.unwrap_or_default()),
        exact(REFUSED, bgp.no_passive_open as f64),
    ]
}

fn judge(runs: &Runs<Calls>) -> Finding {
    let at = |callers, opens, metric| runs.at(&Calls { callers, opens }, metric);
    let mut checks = Vec::new();
    for callers in CALLERS {
        let all = at(callers, PassiveOpens::OnDemand, HEARD);
        let what = format!("on demand {all} of {callers} are heard");
        checks.push(Check::new(what, all.at_least(callers as f64)));
        if callers > 1 {
            let heard = at(callers, PassiveOpens::Fixed(1), HEARD);
            let what = format!("with a single one {heard} of {callers} are heard");
            checks.push(Check::new(what, heard.within([1.0, 1.0])));
        }
    }
    let most = CALLERS[CALLERS.len() - 1];
    let of = |opens| mean(&at(most, opens, COMPLETION));
    let measured = format!(
        "Of the messages of {most} stations and the one that they call {} % come with passive opens on demand, {} % with a \
         single one, {} % with four.",
        of(OPENS[0]),
        of(OPENS[1]),
        of(OPENS[2])
    );
    let points = runs.points(HEARD, "stations", |_| true);
    let tables = [(COMPLETION, "%"), (REFUSED, "connections")].map(|(metric, unit)| {
        Table::of(format!("{metric}, {unit}"), &runs.points(metric, unit, |_| true))
    });
    let figure = Figure::of(&points, "tac-connect", "Stations that are heard by one that all call")
        .under("BGP sessions over EPLRS needlines of 480 bit/s")
        .over(Axis::log("Stations that call", "").with_ticks(CALLERS.map(|it| it as f64)))
        .up(Axis::linear("Stations heard", ""));
    Finding {
        figures: vec![figure],
        tables: [Table::of("Stations heard", &points)].into_iter().chain(tables).collect(),
        points,
        assumptions: vec![
            "Each calling station has a needline of its own to the one that is called, so that nothing but passive opens \
             is short. Who is refused calls again after two minutes. A passive open is taken for as long as its connection lasts."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_must_be_heard_on_demand_and_one_alone_otherwise() {
        let verdict = |runs, on_demand: f64, single: f64| {
            let runs = Runs::made_up(calls(), runs, |calls| match calls.opens {
                PassiveOpens::OnDemand => vec![(HEARD, on_demand * calls.callers as f64)],
                PassiveOpens::Fixed(_) => vec![(HEARD, single)],
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(3, 1.0, 1.0), Verdict::Reproduced);
        assert_eq!(verdict(3, 0.9, 1.0), Verdict::Differs);
        assert_eq!(verdict(3, 1.0, 2.0), Verdict::Differs);
        assert_eq!(verdict(1, 1.0, 1.0), Verdict::Undecided);
    }
}

//! The whole grid: what the tunnel is to reach in every cell.

use super::grid::{self, GOAL, LOSSES, SESSIONS};
use super::{GROUP, Scheme, assumptions, measure};
use crate::claim::{Claim, Finding, Results, Verdict};
use crate::stats::Estimate;
use crate::words::percent;

/// How alike the sessions are to fare.
const FAIR: f64 = 0.98;

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-goodput",
        group: GROUP,
        text: "a coded tunnel masks losses of 0 to 30 % on the link between two gateways from the TCP \
               sessions through it, whether 1, 2, 3 or 5",
        source: "section IV, figure 7",
        cells: || grid::cells(&SESSIONS),
        judge,
    }
}

/// The least of our tunnel over the grid, and where.
fn least(value: impl Fn(u32, f64) -> Estimate) -> (Estimate, u32, f64) {
    let cells = SESSIONS.into_iter().flat_map(|n| LOSSES.map(|loss| (value(n, loss), n, loss)));
    let least = cells.min_by(|a, b| a.0.mean.total_cmp(&b.0.mean));
    least.expect("the grid is not empty")
}

fn judge(results: &Results) -> Finding {
    let points = grid::points(results, &SESSIONS);
    let ratio = |n, loss| grid::ratio(results, Scheme::Ours, n, loss);
    let fairness = |scheme, n, loss| grid::at(results, scheme, n, loss, measure::FAIRNESS);
    let (worst, worst_sessions, worst_loss) = least(ratio);
    let (unfair, unfair_sessions, unfair_loss) = least(|n, loss| fairness(Scheme::Ours, n, loss));
    let goodput = |scheme, n, loss| grid::at(results, scheme, n, loss, measure::GOODPUT);
    let mut beaten_by = Vec::new();
    for other in Scheme::ALL {
        for n in SESSIONS {
            for loss in LOSSES.into_iter().filter(|loss| *loss > 0.0) {
                if goodput(Scheme::Ours, n, loss).is_surely_below(&goodput(other, n, loss)) {
                    let (title, loss) = (other.title(), percent(loss));
                    beaten_by.push(format!("{title} with {n} sessions at {loss}"));
                }
            }
        }
    }
    let is_at_goal = worst.mean >= GOAL && unfair.mean >= FAIR;
    let verdict = match (is_at_goal, beaten_by.is_empty()) {
        (true, true) => Verdict::Beaten,
        (false, true) => Verdict::Reproduced,
        (_, false) => Verdict::Differs,
    };
    let shown = |scheme: Scheme| {
        let one = |n: u32| {
            let at = |loss| format!("{:.2}", goodput(scheme, n, loss).mean);
            format!("{n}: {}, {}, {}", at(0.0), at(0.15), at(0.30))
        };
        format!("{} {}", scheme.title(), SESSIONS.map(one).join("; "))
    };
    Finding {
        verdict,
        measured: format!(
            "our tunnel reaches at least {:.3} of its limit (with {worst_sessions} sessions at {}), \
             and Jain's index is at least {:.4} (with {unfair_sessions} at {}). Goodput in Mbit/s at \
             0, 15 and 30 % with 1, 2, 3 and 5 sessions: {}. {} runs.",
            worst.mean,
            percent(worst_loss),
            unfair.mean,
            percent(unfair_loss),
            Scheme::ALL.map(shown).join(" - "),
            worst.runs,
        ),
        reason: format!(
            "the least share of the limit is {} the goal of {GOAL}, the least Jain's index {} that of \
             {FAIR}; {}",
            if worst.mean >= GOAL { "above" } else { "below" },
            if unfair.mean >= FAIR { "above" } else { "below" },
            if beaten_by.is_empty() {
                "with loss nothing else is ahead of our tunnel beyond doubt".to_owned()
            } else {
                format!("ahead of our tunnel beyond doubt: {}", beaten_by.join(", "))
            },
        ),
        figures: SESSIONS
            .map(|n| grid::figure(&points, &format!("nc-goodput-{n}"), n))
            .into_iter()
            .collect(),
        tables: vec![
            grid::table(
                "Goodput as a share of the limit",
                &SESSIONS,
                &Scheme::ALL,
                |scheme, n, loss| grid::ratio(results, scheme, n, loss),
            ),
            grid::table("Jain's index of the sessions", &SESSIONS[1..], &Scheme::ALL, fairness),
            grid::table(
                "Octets on the middle for an octet out of the tunnel",
                &SESSIONS,
                &[Scheme::Ours],
                |scheme, n, loss| grid::at(results, scheme, n, loss, measure::COST),
            ),
        ],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

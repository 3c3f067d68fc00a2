//! What the paper reads off its Figure 7: the schemes against each other.

use super::grid::{self, LOSSES};
use super::{GROUP, Scheme, assumptions, measure, traces};
use crate::claim::{Claim, Finding, Results, Verdict};
use crate::stats::Estimate;
use crate::words::percent;

/// What is left of the goodput without loss when it "hardly falls".
const HARDLY: f64 = 0.9;
/// Up to here two sessions hardly suffer.
const KNEE: f64 = 0.15;
/// How far two goodputs differ, as a share, that are "nearly equal".
const NEARLY: f64 = 0.15;

pub(super) fn claims() -> [Claim; 5] {
    [
        Claim {
            id: "nc-beats-tcp",
            group: GROUP,
            text: "TCP/NC from end to end and the TCP/NC tunnel are always better than TCP from end \
                   to end on a lossy link",
            source: "section IV, figure 7",
            cells: || grid::cells(&grid::SESSIONS),
            judge: judge_beats,
        },
        Claim {
            id: "nc-one",
            group: GROUP,
            text: "with one session the tunnel's goodput hardly falls up to 30 % loss and is clearly \
                   above that of TCP/NC from end to end",
            source: "section IV, figure 7",
            cells: || grid::cells(&[1]),
            judge: judge_one,
        },
        Claim {
            id: "nc-two",
            group: GROUP,
            text: "with two sessions the tunnel's goodput hardly falls up to 15 % loss; above, the \
                   gateway's TCP send buffer overflows and goodput falls",
            source: "section IV, figures 7 to 10",
            cells: || grid::cells(&[2]),
            judge: judge_two,
        },
        Claim {
            id: "nc-three",
            group: GROUP,
            text: "with three sessions the tunnel and TCP/NC from end to end are nearly equal, the \
                   tunnel slightly lower for its encapsulation",
            source: "section IV, figure 7",
            cells: || grid::cells(&[3]),
            judge: judge_three,
        },
        Claim {
            id: "nc-five",
            group: GROUP,
            text: "with five sessions there is congestion even without loss, and the tunnel and TCP/NC \
                   from end to end degrade alike",
            source: "section IV, figure 7",
            cells: || grid::cells(&[5]),
            judge: judge_five,
        },
    ]
}

fn goodput(results: &Results, scheme: Scheme, sessions: u32, loss: f64) -> Estimate {
    grid::at(results, scheme, sessions, loss, measure::GOODPUT)
}

/// What is left of the goodput without loss.
fn kept(results: &Results, scheme: Scheme, sessions: u32, loss: f64) -> f64 {
    goodput(results, scheme, sessions, loss).mean / goodput(results, scheme, sessions, 0.0).mean
}

/// Losses where `low` is not surely below `high`.
fn not_below(results: &Results, low: Scheme, high: Scheme, sessions: u32) -> Vec<f64> {
    let lossy = LOSSES.into_iter().filter(|loss| *loss > 0.0);
    let is_not = |loss: &f64| {
        let [low, high] = [low, high].map(|it| goodput(results, it, sessions, *loss));
        !low.is_surely_below(&high)
    };
    lossy.filter(is_not).collect()
}

/// The goodputs at some losses, of every scheme.
fn listed(results: &Results, sessions: u32) -> String {
    let shown = [0.0, 0.10, 0.15, 0.20, 0.30];
    let of = |scheme: Scheme| {
        let one = |loss| format!("{:.2}", goodput(results, scheme, sessions, loss).mean);
        format!("{} {}", scheme.title(), shown.map(one).join(", "))
    };
    let runs = goodput(results, Scheme::Ours, sessions, 0.0).runs;
    format!(
        "goodput in Mbit/s at 0, 10, 15, 20 and 30 %: {}. {runs} runs.",
        Scheme::ALL.map(of).join("; ")
    )
}

fn finding(
    results: &Results,
    name: &str,
    sessions: &[u32],
    verdict: Verdict,
    measured: String,
    reason: String,
) -> Finding {
    let points = grid::points(results, sessions);
    let figures = sessions.iter().map(|n| {
        let name = if sessions.len() == 1 { name.to_owned() } else { format!("{name}-{n}") };
        grid::figure(&points, &name, *n)
    });
    Finding {
        verdict,
        measured,
        reason,
        figures: figures.collect(),
        tables: vec![grid::table(
            "Goodput as a share of the limit",
            sessions,
            &Scheme::ALL,
            |scheme, n, loss| grid::ratio(results, scheme, n, loss),
        )],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

fn judge_beats(results: &Results) -> Finding {
    let mut misses = Vec::new();
    let mut is_ours_ahead = true;
    for n in grid::SESSIONS {
        for scheme in [Scheme::TcpNc, Scheme::TcpNcTunnel] {
            for loss in not_below(results, Scheme::Tcp, scheme, n) {
                misses.push(format!("{} with {n} sessions at {}", scheme.title(), percent(loss)));
            }
        }
        is_ours_ahead &= not_below(results, Scheme::Tcp, Scheme::Ours, n).is_empty();
    }
    let verdict = match (misses.is_empty(), is_ours_ahead) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::Beaten,
        (false, false) => Verdict::Differs,
    };
    let reason = if misses.is_empty() {
        "both are above plain TCP beyond doubt at every loss and number of sessions".to_owned()
    } else {
        format!(
            "not above plain TCP beyond doubt: {}; our tunnel {} everywhere",
            misses.join(", "),
            if is_ours_ahead { "is" } else { "is not" },
        )
    };
    let measured = listed(results, 1).replacen("goodput", "with one session, goodput", 1);
    finding(results, "nc-beats-tcp", &grid::SESSIONS, verdict, measured, reason)
}

fn judge_one(results: &Results) -> Finding {
    let least =
        |scheme| LOSSES.map(|loss| kept(results, scheme, 1, loss)).into_iter().fold(1.0, f64::min);
    let (seed, ours) = (least(Scheme::TcpNcTunnel), least(Scheme::Ours));
    let not_above = |scheme| not_below(results, Scheme::TcpNc, scheme, 1);
    let verdict = if seed >= HARDLY && not_above(Scheme::TcpNcTunnel).is_empty() {
        Verdict::Reproduced
    } else if ours >= HARDLY && not_above(Scheme::Ours).is_empty() {
        Verdict::Beaten
    } else {
        Verdict::Differs
    };
    let behind = not_above(Scheme::TcpNcTunnel).into_iter().map(percent).collect::<Vec<_>>();
    let reason = format!(
        "the paper's tunnel keeps at least {seed:.3} of its goodput without loss, ours {ours:.3}, where \
         {HARDLY} counts as hardly falling; the paper's tunnel is above TCP/NC from end to end beyond \
         doubt {}",
        if behind.is_empty() {
            "at every loss".to_owned()
        } else {
            format!("except at {}", behind.join(", "))
        },
    );
    finding(results, "nc-one", &[1], verdict, listed(results, 1), reason)
}

fn judge_two(results: &Results) -> Finding {
    let kept = |scheme, loss| kept(results, scheme, 2, loss);
    let up_to_knee = LOSSES.into_iter().filter(|loss| *loss <= KNEE);
    let flat = up_to_knee.map(|loss| kept(Scheme::TcpNcTunnel, loss)).fold(1.0, f64::min);
    let above = kept(Scheme::TcpNcTunnel, 0.30);
    let overflow =
        |loss| grid::at(results, Scheme::TcpNcTunnel, 2, loss, measure::OVERFLOWED).mean * 100.0;
    let ours = LOSSES.map(|loss| kept(Scheme::Ours, loss)).into_iter().fold(1.0, f64::min);
    let (falls, overflows) = (above < HARDLY, overflow(0.30) > 0.0);
    let verdict = match (flat >= HARDLY, falls, overflows) {
        (true, true, true) => Verdict::Reproduced,
        (true, false, _) => Verdict::Beaten,
        // It falls, but not for the reason given.
        (true, true, false) | (false, _, _) => Verdict::Differs,
    };
    let reason = format!(
        "the paper's tunnel keeps at least {flat:.3} of its goodput up to {}, and {above:.3} at 30 %; of \
         the packets that reach it its send buffer drops {:.2} % at 10 %, {:.2} % at 15 %, {:.2} % at \
         20 % and {:.2} % at 30 % loss. Ours keeps at least {ours:.3} at every loss",
        percent(KNEE),
        overflow(0.10),
        overflow(0.15),
        overflow(0.20),
        overflow(0.30),
    );
    let mut finding = finding(results, "nc-two", &[2], verdict, listed(results, 2), reason);
    finding.figures.extend(traces::figures());
    finding
}

fn judge_three(results: &Results) -> Finding {
    let ratios = LOSSES.map(|loss| {
        let [nc, tunnel] = [Scheme::TcpNc, Scheme::TcpNcTunnel];
        goodput(results, tunnel, 3, loss).mean / goodput(results, nc, 3, loss).mean
    });
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let apart = ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let is_lower = mean < 1.0;
    let verdict = match (apart <= NEARLY, is_lower) {
        (true, true) => Verdict::Reproduced,
        (true, false) => Verdict::Beaten,
        (false, _) => Verdict::Differs,
    };
    let reason = format!(
        "the tunnel gets {} of what TCP/NC gets from end to end at 0 to 30 % loss, {mean:.3} in the mean; \
         within {NEARLY} counts as nearly equal",
        ratios.map(|ratio| format!("{ratio:.2}")).join(", "),
    );
    finding(results, "nc-three", &[3], verdict, listed(results, 3), reason)
}

fn judge_five(results: &Results) -> Finding {
    let dropped = |scheme| grid::at(results, scheme, 5, 0.0, measure::REPEATED).mean;
    let [nc, tunnel] = [Scheme::TcpNc, Scheme::TcpNcTunnel].map(dropped);
    let ratios = LOSSES.map(|loss| {
        kept(results, Scheme::TcpNcTunnel, 5, loss) / kept(results, Scheme::TcpNc, 5, loss)
    });
    let apart = ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let is_congested = nc > 0.0 && tunnel > 0.0;
    let verdict =
        if is_congested && apart <= NEARLY { Verdict::Reproduced } else { Verdict::Differs };
    let reason = format!(
        "without loss the sources send {nc:.0} segments again over TCP/NC from end to end and {tunnel:.0} \
         over the tunnel; what both keep of their goodput without loss differs by a factor of {} at 0 to \
         30 %, where {NEARLY} counts as alike",
        ratios.map(|ratio| format!("{ratio:.2}")).join(", "),
    );
    finding(results, "nc-five", &[5], verdict, listed(results, 5), reason)
}

//! The claims about TCP in MANETs that are connected to the Internet (Karlsson and Kassler, "TCP
//! Performance in Mobile Ad Hoc Networks Connected to the Internet").
//!
//! All look at runs of [`Trial`]s: the paper's 96 scenarios, and ours beside them.

mod assumed;
mod assumptions;
mod cell;
mod chain5;
mod chain51;
mod dcf;
mod dsdv;
mod fair;
mod hops;
mod measure;
mod motion;
mod ours;
mod queues;
mod random;
mod scene;
mod timeline;
mod trial;
mod wireless;

use crate::prelude::*;
use trial::{Network, PAPER_TCPS, Routing, TRAFFICS, Tcp, Traffic, Trial};

const GROUP: &str = "manet";
const KBIT_S: &str = "kbit/s";
/// The most runs of a scenario: each lasts 900 s.
const RUNS: u32 = 10;

/// Octets of all flows from their first SYN to their end, in kbit/s.
const GOODPUT: Metric = "goodput";
/// Of the first flow alone.
const FIRST: Metric = "first flow";
/// Of the second flow alone.
const SECOND: Metric = "second flow";
/// Goodput of the first flow while its source is one hop from its destination or gateway, and so on.
const BY_HOPS: [Metric; 5] =
    ["goodput, 1 hop", "goodput, 2 hops", "goodput, 3 hops", "goodput, 4 hops", "goodput, 5 hops"];
/// The deviation of the goodput of all flows in a second over its mean.
const VARIATION: Metric = "variation";
/// The mean congestion window of the first flow, in segments.
const WINDOW: Metric = "window";
/// Jain's index of two flows while both send.
const JAIN: Metric = "jain";
/// How often the source's hop count changes from 20 to 100 s.
const CHANGES: Metric = "route changes";
/// How often the source is given another route, or the same again after it was lost, from 20 to 100 s.
const FOUND: Metric = "routes found";
/// The part of the paper's route changes that are seen within 5 s.
const SEEN: Metric = "changes seen";
/// The largest lateness among the changes seen.
const LAG: Metric = "lag";
/// Seconds for which the source has no route.
const WITHOUT: Metric = "without a route";
/// Packets that radios gave up after their last attempt.
const GIVEN_UP: Metric = "given up";
/// Neighbours that nodes running AODV lost.
const BREAKS: Metric = "breaks";
/// Timeouts of the first flow's TCP.
const TIMEOUTS: Metric = "timeouts";

/// The claims, in the order of the paper.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![chain5::CLAIM];
    claims.extend(chain51::CLAIMS);
    claims.extend([motion::CLAIM, random::CLAIM]);
    claims.extend(dsdv::CLAIMS);
    claims.extend([fair::CLAIM, assumptions::CLAIM, queues::CLAIM]);
    claims.push(dcf::CLAIM);
    claims.extend(hops::CLAIMS);
    claims.extend([ours::CLAIM, wireless::CLAIM]);
    claims
}

/// The mean over all traffic cases.
fn average(runs: &Runs<Trial>, trial: Trial, metric: Metric) -> Estimate {
    let of = |traffic| runs.at(&Trial { traffic, ..trial }, metric);
    Estimate::mean_of(TRAFFICS.map(of))
}

/// The mean goodput over all traffic cases of a network.
fn goodput(runs: &Runs<Trial>, network: Network, tcp: Tcp, routing: Routing) -> Estimate {
    average(runs, Trial::new(network, Traffic::One, tcp).over(routing), GOODPUT)
}

/// A metric of every traffic case and TCP of a network.
fn points(runs: &Runs<Trial>, network: Network, routing: Routing, metric: Metric) -> Vec<Point> {
    let place = |tcp, traffic| Trial::new(network, traffic, tcp).over(routing);
    Sweep::new(runs, (PAPER_TCPS, Tcp::line), (TRAFFICS, Traffic::number, "traffic"), place)
        .naming(|traffic| traffic.title(network).to_owned())
        .points(metric, KBIT_S)
}

/// The same in words.
fn table(runs: &Runs<Trial>, network: Network, routing: Routing, metric: Metric) -> Table {
    let place = |tcp, traffic| Trial::new(network, traffic, tcp).over(routing);
    let title = format!("{}, {}, {metric}", network.title(), routing.title());
    Sweep::new(runs, (PAPER_TCPS, Tcp::line), (TRAFFICS, Traffic::number, "traffic"), place).table(
        title,
        "traffic",
        |traffic| traffic.title(network).to_owned(),
        metric,
    )
}

/// A figure of goodput over the traffic cases.
fn figure(points: &[Point], name: &str, title: &str, subtitle: &str) -> Figure {
    let x = Axis::linear("Traffic case, in the paper's order", "").with_ticks([1.0, 2.0, 3.0, 4.0]);
    Figure::of(points, name, title).under(subtitle).over(x).up(Axis::linear("Goodput", KBIT_S))
}

/// What was taken where the paper is silent.
fn assumptions() -> Vec<String> {
    [
        "The radio is ns-2's 802.11 with 2 Mbit/s for data and 1 Mbit/s for RTS, CTS, ACK and \
         broadcasts, RTS before every unicast frame, ranges of 250 m and 550 m; there is no ARP.",
        "TCP segments carry 1,460 octets, the receiver acknowledges each and has a window of 20 \
         segments, as ns-2 does unless told. Vegas: alpha = beta = 2, gamma = 1, the agent of ns-2. \
         TCP-AP: the agent of ns-2, which counts wireless hops.",
        "Queues hold 50 packets, routing messages go first. AODV hears of lost neighbours from the \
         link layer; DSDV does not, and the gateway announces itself as the way to all else.",
        "When flows start and end is given for Chain 5+1 only; the same times are taken elsewhere: \
         20 to 880 s; of two that overlap, 20 to 440 s and 220 to 880 s.",
        "Goodput is what the receiving program was given of all flows, over the time from 20 to 880 s.",
    ]
    .map(str::to_owned)
    .to_vec()
}

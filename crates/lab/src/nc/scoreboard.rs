//! The impaired links of a public comparison of VPNs, with one flow of each congestion control.

use std::time::Duration;

use base::quantity::{BitRate, Probability};
use sim::channel::{self, Loss};
use sim::{InterfaceConfig, LinkConfig};
use tcp::Algorithm;
use tunnel as nc;

use super::network::LONG_PACKET;
use super::paths::one_flow;
use super::{GROUP, MBIT};
use crate::prelude::*;
use crate::scenario::{Built, Plan};
use crate::tcp::{LINUX_RENO, as_linux};

/// Mbit/s of the flow.
const GOODPUT: Metric = "goodput";
/// The rate of the line, in Mbit/s.
const RATE: u64 = 1_000;
/// netem's queue, in packets.
const QUEUE: usize = 1_000;
/// The delay of the cable, one way; netem adds more.
const CABLE: Duration = Duration::from_micros(100);
/// How long iperf3 runs by default. The first seconds count, too.
const WINDOW: Duration = Duration::from_secs(10);
/// Octets of both hosts' buffers: more than 1 Gbit/s times the longest round trip.
const BUFFER: usize = 12 << 20;
/// Octets of IPv4 and TCP headers.
const HEADERS: usize = 40;

pub const CLAIM: Claim = Claim {
    id: "nc-vpn-bench",
    group: GROUP,
    text: "one flow through the tunnel has 0.9, 0.8, 0.7 and 0.6 of a line of 1 Gbit/s at vpn-bench's no, low, medium and high \
           impairment, with CUBIC, NewReno and BBR inside",
    source: "ours; vpn-bench, March 2026",
    experiment: || Experiment::new(cases(), judge),
};

/// A profile of vpn-bench.
struct Profile {
    name: &'static str,
    /// The least and the greatest delay that netem adds one way, in ms; delays between are equally likely.
    delay: [u32; 2],
    /// In per cent.
    loss: f64,
    /// The part of the line that is asked of the tunnel.
    asked: f64,
    /// Mbit/s of plain IP and of the best VPN there, with CUBIC.
    published: [f64; 2],
}

const PROFILES: [Profile; 4] = [
    Profile { name: "clean", delay: [0, 0], loss: 0.0, asked: 0.9, published: [931.0, 883.0] },
    Profile { name: "low", delay: [0, 4], loss: 0.25, asked: 0.8, published: [329.0, 264.0] },
    Profile { name: "medium", delay: [0, 11], loss: 1.0, asked: 0.7, published: [30.0, 38.0] },
    Profile { name: "high", delay: [0, 21], loss: 2.5, asked: 0.6, published: [3.8, 5.9] },
];

const CONTROLS: [(&str, Algorithm); 3] =
    [("cubic", Algorithm::CUBIC), ("newreno", LINUX_RENO), ("bbr", Algorithm::Bbr)];
/// How the lines of each look, plain and by the tunnel.
const INKS: [[Ink; 2]; 3] =
    [[Ink::Tcp, Ink::Default], [Ink::Other(0), Ink::Other(1)], [Ink::Other(2), Ink::Other(3)]];

/// A profile and a congestion control by their places, and whether a tunnel carries the flow.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    profile: usize,
    control: usize,
    is_tunnel: bool,
}

fn cases() -> Vec<Case> {
    let of_control =
        |profile, control| [false, true].map(|is_tunnel| Case { profile, control, is_tunnel });
    let of_profile = move |profile| (0..CONTROLS.len()).flat_map(move |it| of_control(profile, it));
    (0..PROFILES.len()).flat_map(of_profile).collect()
}

impl Place for Case {
    fn cell(&self) -> Cell {
        let case = *self;
        let (profile, (control, _)) = (PROFILES[self.profile].name, CONTROLS[self.control]);
        let by = if self.is_tunnel { "tunnel" } else { "plain" };
        let name = Name::of("vpn-bench").with("profile", profile).with("control", control);
        let draws = format!("vpn-bench {profile} {control} {by}");
        Cell::of(name.with("by", by), draws, move |seed| plan(seed, case, WINDOW), measure)
    }
}

fn plan(seed: u64, case: Case, duration: Duration) -> Plan {
    let Case { profile, control, is_tunnel } = case;
    let linux = as_linux(tcp::Config::default());
    // As a gateway clamps it.
    let mss = is_tunnel.then(|| u16::try_from(LONG_PACKET - HEADERS).unwrap_or(u16::MAX));
    let algorithm = CONTROLS[control].1;
    let tcp = tcp::Config {
        mss,
        send_buffer: BUFFER,
        receive_buffer: BUFFER,
        congestion: tcp::Congestion { algorithm, ..linux.congestion },
        ..linux
    };
    let tunnel = is_tunnel.then(nc::Config::default);
    one_flow(seed, duration, vec![link(&PROFILES[profile])], tunnel, tcp)
}

fn link(profile: &Profile) -> LinkConfig {
    let [least, most] = profile.delay.map(|it| Duration::from_millis(it.into()));
    let jitter = (most - least) / 2;
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(RATE * 1_000_000).unwrap_or_default(),
        delay: CABLE + least + jitter,
        jitter,
        reorder: !jitter.is_zero(),
        loss: Loss::random(Probability::new(profile.loss / 100.0).unwrap_or(Probability::ONE)),
        ..channel::Config::default()
    };
    let interface = InterfaceConfig { queue_packets: QUEUE, ..InterfaceConfig::default() };
    LinkConfig::symmetric(channel, interface)
}

fn measure(mut built: Built<'_>) -> Outcome {
    let Some(&[_, sink]) = built.transfers.first() else { return Vec::new() };
    let end = built.end();
    built.world.run_until(end);
    let octets = built.received(sink);
    vec![exact(GOODPUT, octets as f64 * 8.0 / end.since(built.begin()).as_secs_f64() / 1e6)]
}

fn judge(runs: &Runs<Case>) -> Finding {
    let of = |profile, control, is_tunnel| runs.at(&Case { profile, control, is_tunnel }, GOODPUT);
    let places = || (0..PROFILES.len()).flat_map(|it| (0..CONTROLS.len()).map(move |to| (it, to)));
    let checks = places().map(|(place, control)| {
        let Profile { name, asked, .. } = PROFILES[place];
        let (goodput, least) = (of(place, control, true), asked * RATE as f64);
        let inside = CONTROLS[control].0;
        let what = format!("{name}, {inside}: {:.0} Mbit/s, {least:.0} asked", goodput.mean);
        Check::new(what, goodput.at_least(least))
    });
    let checks: Vec<Check> = checks.collect();
    let gain =
        |(place, control)| of(place, control, true).mean / of(place, control, false).mean.max(1e-9);
    let [least, most] = extremes(places().map(gain));
    let measured = format!("the tunnel carries {least:.2} to {most:.0} times what plain IP does.");
    let rows = named(places(), |(place, control)| {
        format!("{}, {}", PROFILES[place].name, CONTROLS[control].0)
    });
    let columns =
        named(["plain", "tunnel", "asked", "published plain", "published best VPN"], |it| it);
    let title = "Goodput of one flow in Mbit/s";
    let table = Table::new(title, ("Profile", columns), rows, |column, (place, control)| {
        let Profile { asked, published, .. } = PROFILES[place];
        let published =
            published.map(|it| if control == 0 { it.to_string() } else { String::new() });
        match column {
            "plain" => format!("{:.1}", of(place, control, false).mean),
            "tunnel" => format!("{:.1}", of(place, control, true).mean),
            "asked" => format!("{:.0}", asked * RATE as f64),
            "published plain" => published[0].clone(),
            _ => published[1].clone(),
        }
    });
    let point = |(place, control): (usize, usize), is_tunnel: bool| {
        let by = if is_tunnel { "tunnel" } else { "plain" };
        let (name, _) = CONTROLS[control];
        let [plain, tunnel] = INKS[control];
        let ink = if is_tunnel { tunnel } else { plain };
        let line = Line::new(format!("{name} {by}"), format!("{name}, {by}"), ink);
        Point::new(line, (place as f64 + 1.0, "profile"), (of(place, control, is_tunnel), MBIT))
    };
    let points: Vec<Point> =
        places().flat_map(|it| [false, true].map(|is_tunnel| point(it, is_tunnel))).collect();
    let published = PROFILES.iter().enumerate();
    let published = published.map(|(place, it)| Mark::exact(place as f64 + 1.0, it.published[1]));
    let names =
        PROFILES.iter().enumerate().map(|(place, it)| format!("{}: {}", place + 1, it.name));
    let figure = Figure::of(&points, "nc-vpn-bench", "One flow over vpn-bench's links")
        .under("1 Gbit/s, queues of 1,000 packets, 10 s from the flow's first packet")
        .over(Axis::linear("Profile", "").with_ticks((1..=PROFILES.len()).map(|it| it as f64)))
        .up(Axis::log("Goodput", MBIT))
        .above(vec![Series::new("vpn-bench's best VPN", Ink::Paper, published)])
        .noting(names.collect::<Vec<_>>().join("; ") + ".");
    Finding {
        figures: vec![figure],
        tables: vec![table],
        points,
        assumptions: vec![
            "Delays are even between netem's least and greatest, and packets overtake each other; those that netem sends \
             at once, 0.5 to 5 % there, are not imitated. The published figures are medians of real machines."
                .to_owned(),
            "Plain TCP has less here than there: to it, three later segments show a loss, where Linux waits for a quarter of \
             a round trip (RACK, RFC 8985) and so bears packets that overtake each other."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_control_has_to_carry_what_is_asked() {
        let verdict = |bbr: f64| {
            let goodput = |case: &Case| {
                let part = if case.control == 2 { bbr } else { 0.91 };
                vec![(GOODPUT, part * RATE as f64)]
            };
            judge(&Runs::made_up(cases(), 3, goodput)).verdict
        };

        assert_eq!([verdict(0.91), verdict(0.5)], [Verdict::Reproduced, Verdict::Differs]);
    }

    #[test]
    fn the_tunnel_carries_more_where_packets_are_lost_and_overtake_each_other() {
        let goodput = |is_tunnel| {
            let case = Case { profile: 2, control: 0, is_tunnel };
            let plan = plan(1, case, Duration::from_millis(500));
            let built = plan.build(1).expect("all nodes have links");
            measure(built)[0].1.value()
        };

        let (plain, ours) = (goodput(false), goodput(true));

        assert!(ours > 3.0 * plain, "{ours} by the tunnel, {plain} plain");
    }
}

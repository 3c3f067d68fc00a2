//! Chooses the flows to measure, and measures them in a run.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::ip::{FlowKey, protocol};
use base::time::Time;
use settings::nearest;
use sim::{PortCounters, World};

use super::measure::{COUNT, FAILED, Measured};
use super::metric::Metric;
use crate::scenario::{Built, Flow, Over, Plan, Report};

/// Whose traffic is measured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subject {
    /// Places among the plan's transfers, and among its streams.
    transfers: Vec<usize>,
    streams: Vec<usize>,
    bgp: bool,
    messages: bool,
    /// Whether it is all there is, and all that is sent counts.
    is_all: bool,
}

impl Subject {
    /// Finds the flows of a plan by name or by kind; all flows if nothing is named.
    ///
    /// # Errors
    /// When no flow matches, or the plan has none at all.
    pub fn new(plan: &Plan, named: &[String]) -> Result<Self, String> {
        let transfers = plan.transfers.iter().map(|it| plan.name_of("tcp", &it.flow));
        let streams = plan.streams.iter().map(|it| plan.name_of("udp", &it.flow));
        let (transfers, streams): (Vec<_>, Vec<_>) = (transfers.collect(), streams.collect());
        let kinds = [
            ("tcp", !transfers.is_empty()),
            ("udp", !streams.is_empty()),
            ("bgp", plan.bgp.is_some()),
            ("messages", plan.messages.is_some()),
        ];
        let kinds = kinds.into_iter().filter(|(_, is_there)| *is_there).map(|(kind, _)| kind);
        let all: Vec<&str> =
            transfers.iter().chain(&streams).map(String::as_str).chain(kinds).collect();
        if all.is_empty() {
            return Err("there are no flows to measure: add [[tcp]], [[udp]], [bgp] or [messages]"
                .to_owned());
        }
        if let Some(name) = named.iter().find(|name| !all.contains(&name.as_str())) {
            return Err(match nearest(name, all.iter().copied()) {
                Some(meant) => format!("no flow is called {name:?}; {meant:?} is probably meant"),
                None => format!("no flow is called {name:?}; there are {}", listed(&all)),
            });
        }
        let is_meant = |kind: &str| named.is_empty() || named.iter().any(|name| name == kind);
        let chosen = |kind: &str, flows: &[String]| -> Vec<usize> {
            let places = flows.iter().enumerate();
            let meant = places.filter(|(_, flow)| is_meant(kind) || named.contains(flow));
            meant.map(|(place, _)| place).collect()
        };
        Ok(Self {
            transfers: chosen("tcp", &transfers),
            streams: chosen("udp", &streams),
            bgp: plan.bgp.is_some() && is_meant("bgp"),
            messages: plan.messages.is_some() && is_meant("messages"),
            is_all: named.is_empty(),
        })
    }

    /// Refuses a metric with measures that these flows never have.
    ///
    /// # Errors
    /// With the first such measure, and why.
    pub fn check(&self, plan: &Plan, metric: &Metric) -> Result<(), String> {
        let ends = self.transfers.iter().any(|it| plan.transfers[*it].octets.is_some());
        let has_parts = !self.streams.is_empty() || self.bgp || self.messages;
        let has_rate = !self.transfers.is_empty() || !self.streams.is_empty() || self.messages;
        let has_tcp = !self.transfers.is_empty();
        let is_hidden = !self.is_all
            && (plan.nodes.iter().any(|node| node.hbh.is_some() || node.tcpnc.is_some())
                || !plan.tunnels.is_empty()
                || !plan.tcpnc_tunnels.is_empty());
        for name in metric.names() {
            let why = match name {
                "c" | "d" | "dmax" | "offered" | "delivered" if !ends && !has_parts => {
                    "a transfer without `octets` is never complete; `goodput` tells how fast it is"
                }
                "t" | "octets" | "packets" | "lost" if is_hidden => {
                    "HBH and tunnels carry the packets of all flows together; without --flow those of all count"
                }
                "dropped" if !self.is_all => "queues drop packets of all flows; leave out --flow",
                "d90" | "told" if !self.messages => "only [messages] tells it",
                "goodput" if !has_rate => "BGP is measured in messages",
                "retransmissions" | "timeouts" | "connect" if !has_tcp => "no [[tcp]] is measured",
                "jitter" if self.streams.iter().all(|it| plan.streams[*it].is_answered) => {
                    "no datagrams are measured whose receiver tells it"
                }
                _ => continue,
            };
            return Err(format!("{name} cannot be measured here: {why}"));
        }
        Ok(())
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// The TCP port of BGP (RFC 4271).
const BGP_PORT: u16 = 179;
/// The UDP port of S/R (MIL-STD-2045-47001).
const SAR_PORT: u16 = 1_624;
/// Flows to be counted by the simulator at most.
const MOST_FLOWS: usize = 100_000;

/// Runs a plan with this seed, and measures these flows.
///
/// # Errors
/// When it cannot be built: a flow has nowhere to go.
pub fn run(plan: &Plan, seed: u64, subject: &Subject) -> Result<Measured, String> {
    let mut built = plan.build(seed).map_err(|why| format!("{why:#}"))?;
    if !subject.is_all {
        built.world.count_flows(MOST_FLOWS);
    }
    let before = built.world.total();
    built.run().map_err(|why| format!("{why:#}"))?;
    let report = built.report(seed);
    Ok(Sums::of(plan, subject, &report).measured(&built, plan, subject, &before))
}

/// What flows add up to.
#[derive(Debug, Default)]
struct Sums {
    shares: Mean,
    delays: Mean,
    longest: f64,
    goodput: f64,
    d90: Option<f64>,
    told: Mean,
    connects: Mean,
    jitters: Mean,
    offered: u64,
    delivered: u64,
    failed: u64,
    retransmissions: u64,
    timeouts: u64,
    duplicates: u64,
}

/// A mean over the existing values.
#[derive(Debug, Default)]
struct Mean(f64, u32);

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.0 += value;
            self.1 += 1;
        }
    }

    /// The mean; this where there is nothing.
    fn or(&self, nothing: f64) -> f64 {
        if self.1 == 0 { nothing } else { self.0 / f64::from(self.1) }
    }
}

impl Sums {
    fn of(plan: &Plan, subject: &Subject, report: &Report) -> Self {
        let mut sums = Self::default();
        let (transfers, streams) = report.flows.split_at(plan.transfers.len());
        for place in &subject.transfers {
            let Some(tcp) = &transfers[*place].tcp else { continue };
            if tcp.octets.is_some() {
                sums.part(1, u64::from(tcp.delay_s.is_some()), tcp.delay_s, tcp.delay_s);
            } else {
                sums.failed += u64::from(tcp.failed);
            }
            sums.goodput += tcp.goodput_bits_per_s.unwrap_or_default();
            sums.connects.add(tcp.connect_s.or(NEVER));
            sums.retransmissions += tcp.retransmissions;
            sums.timeouts += tcp.timeouts;
            sums.duplicates += tcp.duplicates;
        }
        for place in &subject.streams {
            let Some(udp) = &streams[*place].udp else { continue };
            sums.part(udp.sent, udp.received, udp.delay_s, udp.longest_delay_s);
            let stream = &plan.streams[*place];
            let bits = udp.received as f64 * stream.payload as f64 * 8.0;
            let all = stream.count.map(|count| stream.interval.as_secs_f64() * count as f64);
            let until = seconds_of(plan, stream.flow.start, stream.stop);
            sums.goodput += bits / all.map_or(until, |all| all.min(until)).max(SHORTEST);
            let never = NEVER.filter(|_| udp.sent > 0 && !stream.is_answered);
            sums.jitters.add(udp.jitter_s.or(never));
            sums.duplicates += udp.duplicates;
        }
        if let Some(bgp) = report.bgp.as_ref().filter(|_| subject.bgp) {
            sums.part(bgp.messages, bgp.delivered, bgp.delay_s, bgp.longest_delay_s);
        }
        if let (true, Some(planned), Some(came)) =
            (subject.messages, &plan.messages, &report.messages)
        {
            sums.part(came.expected, came.received, came.delay_s, came.longest_delay_s);
            let bits = came.received as f64 * planned.payload as f64 * 8.0;
            sums.goodput += bits / seconds_of(plan, planned.start, planned.stop).max(SHORTEST);
            sums.d90 = came.delay_90_s;
            sums.told.add(came.told_share);
            sums.duplicates += came.again;
        }
        sums
    }

    /// Counts a flow that had so much to deliver, and delivered so much.
    fn part(&mut self, offered: u64, delivered: u64, delay: Option<f64>, longest: Option<f64>) {
        if offered > 0 {
            self.shares.add(Some(delivered as f64 / offered as f64));
        }
        self.offered += offered;
        self.delivered += delivered;
        // A flow of which nothing came took for ever, whatever others did.
        let never = NEVER.filter(|_| offered > 0);
        self.failed += u64::from(offered > 0 && delivered == 0);
        self.delays.add(delay.or(never));
        self.longest = self.longest.max(longest.or(never).unwrap_or_default());
    }

    fn measured(
        &self,
        built: &Built<'_>,
        plan: &Plan,
        subject: &Subject,
        before: &PortCounters,
    ) -> Measured {
        let never = f64::INFINITY;
        let total = built.world.total();
        let (octets, packets, lost) = if subject.is_all {
            let [now, then] = [total.sent.traffic(), before.sent.traffic()];
            let lost = total.lost.packets - before.lost.packets;
            (now.octets - then.octets, now.packets - then.packets, lost)
        } else {
            counted(built, subject)
        };
        let dropped = |it: &PortCounters| it.dropped_at_edge.packets + it.dropped_inside.packets;
        let seconds = plan.duration.as_secs_f64();
        let mut all = Measured([f64::NAN; COUNT]);
        for (name, value) in [
            ("c", self.shares.or(f64::NAN)),
            ("d", self.delays.or(never)),
            ("dmax", if self.delays.1 == 0 { never } else { self.longest }),
            ("t", octets as f64 * 8.0 / seconds),
            ("goodput", self.goodput),
            ("d90", self.d90.unwrap_or(never)),
            ("told", self.told.or(f64::NAN)),
            ("offered", self.offered as f64),
            ("delivered", self.delivered as f64),
            ("octets", octets as f64),
            ("packets", packets as f64),
            ("lost", lost as f64),
            ("dropped", (dropped(&total) - dropped(before)) as f64),
            ("retransmissions", self.retransmissions as f64),
            ("timeouts", self.timeouts as f64),
            ("connect", self.connects.or(never)),
            ("jitter", self.jitters.or(never)),
            ("duplicates", self.duplicates as f64),
            (FAILED, self.failed as f64),
        ] {
            all.set(name, value);
        }
        all
    }
}

/// How long something takes that does not end.
const NEVER: Option<f64> = Some(f64::INFINITY);
/// Seconds that a rate is taken over at least.
const SHORTEST: f64 = 1e-9;

/// For how long something sends.
fn seconds_of(plan: &Plan, start: Time, stop: Option<Time>) -> f64 {
    let [start, stop] = [Some(start), stop].map(|time| time.map(|time| time.since(Time::ZERO)));
    let until = stop.unwrap_or(plan.duration).min(plan.duration);
    until.saturating_sub(start.unwrap_or_default()).as_secs_f64()
}

/// Octets, packets and losses of these flows, both directions of each.
fn counted(built: &Built<'_>, subject: &Subject) -> (u64, u64, u64) {
    let plan = built.plan();
    let transfers = subject.transfers.iter().map(|it| (protocol::TCP, &plan.transfers[*it].flow));
    let streams = subject.streams.iter().map(|it| (protocol::UDP, &plan.streams[*it].flow));
    let flows = transfers.chain(streams).map(|(kind, flow)| Mark::new(built, kind, flow));
    let bgp = subject.bgp.then_some((protocol::TCP, BGP_PORT));
    let messages = plan.messages.as_ref().filter(|_| subject.messages).map(|it| match it.over {
        Over::Sar => (protocol::UDP, SAR_PORT),
        Over::Tcp => (protocol::TCP, it.port),
        Over::Udp => (protocol::UDP, it.port),
    });
    let others = bgp.into_iter().chain(messages);
    let others = others.map(|(protocol, port)| Mark { protocol, ends: None, port });
    let marks: Vec<Mark> = flows.chain(others).collect();
    let (mut octets, mut packets, mut lost) = (0, 0, 0);
    for (key, counters) in built.world.flows() {
        if marks.iter().any(|mark| mark.is_of(key)) {
            octets += counters.sent.octets;
            packets += counters.sent.packets;
            lost += counters.lost.packets;
        }
    }
    (octets, packets, lost)
}

/// What the packets of a flow have in common.
struct Mark {
    protocol: u8,
    /// Addresses, unless those of all nodes are meant.
    ends: Option<[BTreeSet<IpAddr>; 2]>,
    /// At the receiver.
    port: u16,
}

impl Mark {
    fn new(built: &Built<'_>, protocol: u8, flow: &Flow) -> Self {
        let of = |world: &World, node: usize| world.addresses(built.nodes[node]).collect();
        let ends = [flow.from, flow.to].map(|node| of(&built.world, node));
        Self { protocol, ends: Some(ends), port: flow.port }
    }

    fn is_of(&self, key: &FlowKey) -> bool {
        // Fragments have no ports: those between the nodes count.
        let is_port = |port: u16| port == self.port || port == 0;
        let is_between = |source: &IpAddr, destination: &IpAddr| {
            let ends = self.ends.as_ref();
            ends.is_none_or(|[near, far]| near.contains(source) && far.contains(destination))
        };
        let goes = is_between(&key.source, &key.destination) && is_port(key.destination_port);
        let returns = is_between(&key.destination, &key.source) && is_port(key.source_port);
        key.protocol == self.protocol && (goes || returns)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Two links; a file, and a stream of which all arrives.
    const TEXT: &str = r#"
nodes = ["a", "b", "c"]
duration = "100s"
[defaults.link]
rate = "80kbit"
delay = "10ms"
[[link]]
between = ["a", "b"]
[[link]]
between = ["b", "c"]
[[tcp]]
name = "file"
from = "a"
to = "c"
octets = 5000
[[udp]]
name = "ticks"
from = "a"
to = "c"
payload = 72
interval = "1s"
count = 10
start = "20s"
"#;

    fn plan(text: &str) -> Plan {
        Plan::parse(Path::new("x.toml"), text.to_owned()).expect("a scenario")
    }

    fn subject(plan: &Plan, named: &[&str]) -> Result<Subject, String> {
        let named: Vec<String> = named.iter().map(|it| (*it).to_owned()).collect();
        Subject::new(plan, &named)
    }

    fn measured(text: &str, named: &[&str]) -> Measured {
        let plan = plan(text);
        let subject = subject(&plan, named).expect("flows");
        run(&plan, 1, &subject).expect("a network")
    }

    #[test]
    fn a_stream_counts_datagrams_and_a_file_counts_once() {
        let ticks = measured(TEXT, &["ticks"]);
        for (name, expected) in [
            ("c", 1.0),
            ("offered", 10.0),
            ("delivered", 10.0),
            // 100 octets each on two links.
            ("packets", 20.0),
            ("octets", 2_000.0),
            ("t", 160.0),
            ("goodput", 576.0),
            ("lost", 0.0),
        ] {
            assert!((ticks.get(name) - expected).abs() < 1e-9, "{name}: {}", ticks.get(name));
        }
        // 10 ms of sending and 10 ms under way, twice.
        assert!((ticks.get("d") - 0.04).abs() < 1e-6, "{}", ticks.get("d"));

        let file = measured(TEXT, &["tcp"]);
        assert_eq!([file.get("offered"), file.get("delivered"), file.get("c")], [1.0, 1.0, 1.0]);
        assert_eq!(file.get("d"), file.get("dmax"));
        assert!(file.get("octets") > 2.0 * 5_000.0 && file.get("jitter").is_infinite());

        let both = measured(TEXT, &[]);
        assert_eq!(both.get("offered"), 11.0);
        assert!((both.get("octets") - ticks.get("octets") - file.get("octets")).abs() < 1e-9);
        assert!((both.get("d") - f64::midpoint(ticks.get("d"), file.get("d"))).abs() < 1e-12);
        assert_eq!(both.get("goodput"), ticks.get("goodput") + file.get("goodput"));
    }

    #[test]
    fn what_never_comes_has_an_infinite_delay_and_no_share() {
        let none = measured(&TEXT.replace("delay = \"10ms\"", "loss = \"100%\""), &["ticks"]);

        assert_eq!([none.get("c"), none.get("delivered")], [0.0, 0.0]);
        assert_eq!([none.get("d"), none.get("dmax")], [f64::INFINITY; 2]);
        assert_eq!(none.get("lost"), 10.0);
    }

    /// The first link is down from 5 s on, and all of both flows that is sent afterwards is lost.
    #[test]
    fn a_flow_that_fails_has_no_delay_and_the_goodput_of_the_time_that_it_had() {
        let down = "between = [\"a\", \"b\"]\ndown = [[\"5s\", \"90s\"]]\nnoticed = false";
        let text = TEXT.replace("between = [\"a\", \"b\"]", down);
        let text = text.replace("octets = 5000", "octets = 500000\noptions = { r2 = \"20s\" }");

        let dead = measured(&text, &["file"]);
        assert_eq!([dead.get("failed"), dead.get("c"), dead.get("delivered")], [1.0, 0.0, 0.0]);
        assert_eq!([dead.get("d"), dead.get("dmax")], [f64::INFINITY; 2]);
        // Some 5 s at less than 80 kbit/s, over 100 s.
        assert!((2_000.0..4_000.0).contains(&dead.get("goodput")), "{dead:?}");
        assert!(dead.get("connect") < 1.0, "{dead:?}");
        let endless = measured(&text.replace("octets = 500000\n", ""), &["file"]);
        assert_eq!((endless.get("failed"), endless.get("goodput")), (1.0, dead.get("goodput")));
        let late = measured(
            &text.replace("name = \"file\"", "name = \"file\"\nstart = \"9s\""),
            &["file"],
        );
        assert_eq!([late.get("connect"), late.get("goodput")], [f64::INFINITY, 0.0]);

        // A file that arrives, beside a stream that delivers nothing.
        let beside = measured(&text.replace("octets = 500000", "octets = 5000"), &[]);
        assert_eq!([beside.get("failed"), beside.get("delivered")], [1.0, 1.0]);
        assert_eq!([beside.get("d"), beside.get("dmax"), beside.get("jitter")], [f64::INFINITY; 3]);
    }

    /// Three routers in a row, with BGP and messages.
    const TACTICAL: &str = r#"
nodes = ["a", "b", "c"]
duration = "30min"
[defaults.link]
rate = "4800bit"
[[link]]
between = ["a", "b"]
[[link]]
between = ["b", "c"]
[bgp]
nodes = ["a", "c"]
stop = "20min"
[messages]
interval = "30s"
payload = 100
stop = "20min"
"#;

    #[test]
    fn bgp_and_messages_are_measured_each_by_itself() {
        let [bgp, messages] = ["bgp", "messages"].map(|kind| measured(TACTICAL, &[kind]));

        // UDP alone tells nobody.
        assert_eq!([bgp.get("c"), messages.get("c"), messages.get("told")], [1.0, 1.0, 0.0]);
        assert!(messages.get("offered") > 20.0 && bgp.get("offered") > 4.0, "{bgp:?}");
        // 128 octets over one link or two.
        let [octets, packets] = ["octets", "packets"].map(|name| messages.get(name));
        assert_eq!(octets, 128.0 * packets);
        let share = packets / messages.get("delivered");
        assert!((1.0..=2.0).contains(&share), "{share}");
        assert!(messages.get("d90") <= messages.get("dmax") && messages.get("d90") > 0.2);
        let expected = messages.get("delivered") * 800.0 / 1_200.0;
        assert!((messages.get("goodput") - expected).abs() < 1e-9);
        let all = measured(TACTICAL, &[]);
        assert_eq!(all.get("octets"), octets + bgp.get("octets"));
        assert_eq!(all.get("t"), all.get("octets") * 8.0 / 1_800.0);
    }

    #[test]
    fn flows_that_are_not_there_are_refused() {
        let plan = plan(TEXT);
        let said = |named| subject(&plan, &[named]).unwrap_err();

        assert_eq!(said("flie"), "no flow is called \"flie\"; \"file\" is probably meant");
        assert!(said("voice").ends_with("there are \"file\", \"ticks\", \"tcp\", \"udp\""));
        let empty = Plan::new(1, plan.duration);
        assert!(subject(&empty, &[]).unwrap_err().starts_with("there are no flows"));
    }

    #[test]
    fn measures_that_flows_never_have_are_refused() {
        let check = |text: &str, named: &[&str], metric: &str| {
            let plan = plan(text);
            let metric = Metric::parse(metric).expect("a metric");
            subject(&plan, named).expect("flows").check(&plan, &metric)
        };
        let endless = TEXT.replace("octets = 5000", "");
        let hbh = TEXT.replace("duration", "hbh = true\nduration");

        assert_eq!(check(TEXT, &[], "c/(d*t) + jitter + timeouts"), Ok(()));
        for (text, named, metric, expected) in [
            (&endless[..], "file", "goodput/d", "a transfer without `octets` is never complete"),
            (&hbh, "file", "t", "HBH and tunnels carry"),
            (TEXT, "ticks", "timeouts", "no [[tcp]] is measured"),
            (TEXT, "file", "jitter", "no datagrams are measured"),
            (TEXT, "file", "dropped", "queues drop packets of all flows"),
            (TEXT, "file", "d90", "only [messages] tells it"),
            (TACTICAL, "bgp", "goodput", "BGP is measured in messages"),
        ] {
            let said = check(text, &[named], metric).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(check(&hbh, &[], "t"), Ok(()));
    }
}

//! Two networks joined by a long lossy link, with gateways or without.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use emulator::namespace;
use serde_json::Value;
use testbed::probe::ping;
use testbed::{Namespaces, Sites};

use crate::bench::gateways::{self, Gateway};
use crate::bench::this_program;

/// The link in the middle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wire {
    /// Bit/s.
    pub rate: u32,
    /// One way, in ms.
    pub delay: u32,
}

/// The long link of most turns, and the nearer one that is filled from both sides.
pub const LONG: Wire = Wire { rate: 10_000_000, delay: 50 };
pub const NEAR: Wire = Wire { rate: 8_000_000, delay: 20 };

/// Octets of the headers of IPv4 and TCP with timestamps.
const TCP_HEADERS: f64 = 52.0;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long the search for the path's MTU may take: probes are lost too.
const MTU_WITHIN: Duration = Duration::from_secs(15);
/// The greatest packet that the tunnel takes on a link of 1500 octets.
const MTU: u64 = 1_438;

/// The way of the packets between the networks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    Plain,
    Tunnel,
}

/// The network, set up and running.
pub struct Network {
    pub nets: Namespaces,
    pub sites: Sites,
    wire: Wire,
}

impl Wire {
    /// A round trip without queues, in ms.
    pub fn round_trip(&self) -> f64 {
        2.0 * f64::from(self.delay)
    }
}

impl Network {
    /// Starts the network; `loss` has the form of `trackway link`, for both directions.
    pub fn new(carrier: Carrier, wire: Wire, loss: &str, seed: u64) -> anyhow::Result<Self> {
        let mut nets = Namespaces::new(this_program()?)?;
        let Wire { rate, delay } = wire;
        let link = format!("--rate {rate}bit --delay {delay}ms --loss {loss} --seed {seed} --json");
        let sites = Sites::new(&mut nets, Some(&link))?;
        sites.forward()?;
        match carrier {
            Carrier::Plain => sites.route(&nets)?,
            Carrier::Tunnel => {
                let gateway = |side: usize| Gateway {
                    namespace: sites.gateways[side].clone(),
                    outside: format!("192.0.2.{}", side + 1),
                    inside: format!("10.99.0.{}", side + 1),
                    behind: Some(format!("10.{}.0.0/24", side + 1)),
                };
                gateways::start(&mut nets, &[gateway(0), gateway(1)])?;
            }
        }
        nets.wait_for_ping(&sites.client, Sites::SERVER, READY_WITHIN)?;
        if carrier == Carrier::Tunnel {
            let has_mtu = |side: &String| nets.status(side)["tunnels"][0]["mtu"] == MTU;
            // Measure even without the MTU: a user would not know either.
            let _ = nets.wait(MTU_WITHIN, "no MTU", || sites.gateways.iter().all(has_mtu));
        }
        Ok(Self { nets, sites, wire })
    }

    /// Ends the link. Returns octets of IP packets offered to the link towards the client, for each octet of TCP's
    /// payload that arrived at the client, from the first packet to the last.
    pub fn finish(mut self) -> anyhow::Result<f64> {
        // Packets in flight were offered and will be delivered.
        thread::sleep(Duration::from_secs_f64(2e-3 * self.wire.round_trip()));
        let delivered = namespace::within(&self.sites.client, received_payload)??;
        let link = self.sites.link.as_ref().context("no link")?.program;
        self.nets.program(link).end();
        let printed = self.nets.printed(link);
        let report: Value = serde_json::from_str(printed.lines().last().unwrap_or_default())
            .context("the link's report")?;
        let offered = report["ba"]["received_octets"].as_f64();
        Ok(offered.context("the link's report lacks octets")? / delivered)
    }

    /// Times of so many pings from one gateway to the other beside the tunnel, in ms, the shortest first. A lost
    /// ping has an infinite time.
    pub fn pings(nets: &Namespaces, gateway: &str, count: u32) -> anyhow::Result<Vec<f64>> {
        let mut times = ping(nets, gateway, "192.0.2.2", (count, 0.05, 2))?;
        times.resize(times.len().max(count as usize), f64::INFINITY);
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Sums over both ends of the tunnel: packets that entered, and datagrams with packets, including repeats and
    /// repairs.
    pub fn counters(&self) -> anyhow::Result<[f64; 2]> {
        let mut sums = [0.0; 2];
        for gateway in &self.sites.gateways {
            let tunnel = self.nets.status(gateway)["tunnels"][0].take();
            let count = |name: &str| tunnel[name].as_f64().with_context(|| format!("no {name}"));
            sums[0] += count("packets_in")?;
            for name in ["sources_sent", "sources_resent", "repairs_sent"] {
                sums[1] += count(name)?;
            }
        }
        Ok(sums)
    }
}

/// Octets of payload in all TCP segments that this thread's namespace has received.
///
/// iperf3 does not count octets sent in time that arrive after the end.
fn received_payload() -> anyhow::Result<f64> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
    let octets = counter(&read("/proc/thread-self/net/netstat")?, "IpExt:", "InOctets");
    let packets = counter(&read("/proc/thread-self/net/snmp")?, "Ip:", "InReceives");
    // The kernel counts a train of segments as one packet with a single header.
    Ok(octets.context("no InOctets")? - packets.context("no InReceives")? * TCP_HEADERS)
}

/// A counter in a table of the kernel: a line of names, then a line of values.
fn counter(table: &str, protocol: &str, name: &str) -> Option<f64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(protocol));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let table = "Ip: InReceives InDelivers\nIp: 17 12\nIpExt: InOctets\nIpExt: 1900\n";

        assert_eq!(counter(table, "Ip:", "InDelivers"), Some(12.0));
        assert_eq!(counter(table, "IpExt:", "InOctets"), Some(1_900.0));
        assert_eq!(counter(table, "Udp:", "InErrors"), None);
    }
}

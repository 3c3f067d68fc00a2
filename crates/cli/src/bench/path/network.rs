//! Two networks joined by a long lossy link, with gateways or without.
//!
//! ```text
//!   client ── gateway a ── link ── gateway b ── server
//!  10.1.0.2       192.0.2.1  192.0.2.2         10.2.0.2
//! ```

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::bench::gateways::{self, Gateway};
use crate::bench::namespaces::{Namespaces, Signals, this_program};
use emulator::namespace;

pub const CLIENT: usize = 0;
const GATEWAYS: [usize; 2] = [1, 3];
const LINK: usize = 2;
pub const SERVER: usize = 4;
pub const SERVER_ADDRESS: &str = "10.2.0.2";

/// The link in the middle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wire {
    /// Bit/s.
    pub(super) rate: u32,
    /// One way, in ms.
    pub(super) delay: u32,
}

/// The long link of most turns, and the nearer one that is filled from both sides.
pub const LONG: Wire = Wire { rate: 10_000_000, delay: 50 };
pub const NEAR: Wire = Wire { rate: 8_000_000, delay: 20 };

/// Octets of the headers of IPv4 and of TCP with timestamps.
const TCP_HEADERS: f64 = 52.0;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// The search for the path's MTU loses probes too.
const MTU_WITHIN: Duration = Duration::from_secs(15);
/// The greatest packet that the tunnel takes on a link of 1500 octets.
const MTU: u64 = 1_438;

/// What the packets go through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    Plain,
    Tunnel,
}

/// The network, set up and running.
pub struct Network {
    pub(super) nets: Namespaces,
    link: usize,
    wire: Wire,
}

impl Wire {
    /// A round trip without queues, in ms.
    pub fn round_trip(&self) -> f64 {
        2.0 * f64::from(self.delay)
    }
}

impl Network {
    /// Starts it; `loss` is as `trackway link` takes it, for both directions.
    pub fn new(
        signals: &Signals,
        carrier: Carrier,
        wire: Wire,
        loss: &str,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut nets = Namespaces::new(signals, &["client", "a", "link", "b", "server"])?;
        for name in &nets.names {
            namespace::within(name, || {
                fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
                for which in ["all", "default"] {
                    fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1")?;
                }
                Ok::<_, std::io::Error>(())
            })?
            .context("cannot change settings of a namespace")?;
        }
        nets.cable((CLIENT, "eth0"), (GATEWAYS[0], "lan"))?;
        nets.cable((SERVER, "eth0"), (GATEWAYS[1], "lan"))?;
        nets.cable((GATEWAYS[0], "wan"), (LINK, "a"))?;
        nets.cable((GATEWAYS[1], "wan"), (LINK, "b"))?;
        for (side, end) in [CLIENT, SERVER].into_iter().enumerate() {
            let (here, there) = (side + 1, 2 - side);
            let gateway = GATEWAYS[side];
            let lan = format!("10.{here}.0.");
            nets.ip(end, &["address", "add", &format!("{lan}2/24"), "dev", "eth0"])?;
            nets.ip(end, &["route", "add", "default", "via", &format!("{lan}1")])?;
            nets.ip(gateway, &["address", "add", &format!("{lan}1/24"), "dev", "lan"])?;
            nets.ip(
                gateway,
                &["link", "set", "wan", "address", &format!("02:00:00:00:00:0{here}")],
            )?;
            nets.ip(gateway, &["address", "add", &format!("192.0.2.{here}/24"), "dev", "wan"])?;
            // Known for good: only what is measured shall be on the link.
            let (peer, mac) = (format!("192.0.2.{there}"), format!("02:00:00:00:00:0{there}"));
            let known = ["neighbour", "add", &peer, "lladdr", &mac, "dev", "wan", "nud"];
            nets.ip(gateway, &[&known[..], &["permanent"]].concat())?;
            if carrier == Carrier::Plain {
                nets.ip(gateway, &["route", "add", &format!("10.{there}.0.0/24"), "via", &peer])?;
            }
        }

        let program = this_program()?;
        let (name, seed) = (nets.names[LINK].clone(), seed.to_string());
        let (rate, delay) = (format!("{}bit", wire.rate), format!("{}ms", wire.delay));
        let link = [
            &["netns", "exec", &name, &program, "link", "a", "b", "--rate", &rate][..],
            &["--delay", &delay, "--loss", loss, "--seed", &seed, "--json"],
        ];
        let link = nets.start(&link.concat(), Stdio::piped())?;
        if carrier == Carrier::Tunnel {
            let gateway = |side: usize| Gateway {
                namespace: GATEWAYS[side],
                outside: format!("192.0.2.{}", side + 1),
                inside: format!("10.99.0.{}", side + 1),
                behind: Some(format!("10.{}.0.0/24", side + 1)),
            };
            gateways::start(&mut nets, &[gateway(0), gateway(1)])?;
        }
        nets.wait_for_ping(SERVER_ADDRESS, READY_WITHIN)?;
        let network = Self { nets, link, wire };
        if carrier == Carrier::Tunnel {
            network.wait_for_mtu(&program)?;
        }
        Ok(network)
    }

    /// Ends the link. Returns octets of IP packets offered to the link towards the client, for each octet of TCP's
    /// payload that arrived at the client, from the first packet to the last.
    pub fn finish(mut self) -> anyhow::Result<f64> {
        // What is still under way was offered and will be delivered.
        thread::sleep(Duration::from_secs_f64(2e-3 * self.wire.round_trip()));
        let delivered = namespace::within(&self.nets.names[CLIENT], received_payload)??;
        let said = self.nets.end_and_read(self.link)?;
        let report: Value = serde_json::from_str(&said).context("the link's report")?;
        let offered = report["ba"]["received_octets"].as_f64();
        Ok(offered.context("the link's report lacks octets")? / delivered)
    }

    /// How long so many pings take from one gateway to the other beside the tunnel, in ms, the shortest
    /// first; what never came took for ever.
    pub fn pings(nets: &Namespaces, count: u32) -> anyhow::Result<Vec<f64>> {
        let sent = count.to_string();
        let command = ["-n", "-i", "0.05", "-c", &sent, "-W", "2", "192.0.2.2"];
        let said = nets.run_in(GATEWAYS[0], "ping", &command)?;
        let mut times: Vec<f64> = said
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("time=")?.parse().ok())
            .collect();
        times.resize(times.len().max(count as usize), f64::INFINITY);
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Counters of both ends of the tunnel: packets that entered, and datagrams that carried packets, repeats and
    /// repairs included.
    pub fn counters(&self) -> anyhow::Result<[f64; 2]> {
        let program = this_program()?;
        let mut sums = [0.0; 2];
        for side in GATEWAYS {
            let tunnel = self.tunnel(&program, side);
            let count = |name: &str| tunnel[name].as_f64().with_context(|| format!("no {name}"));
            sums[0] += count("packets_in")?;
            for name in ["sources_sent", "sources_resent", "repairs_sent"] {
                sums[1] += count(name)?;
            }
        }
        Ok(sums)
    }

    fn wait_for_mtu(&self, program: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + MTU_WITHIN;
        while Instant::now() < deadline {
            let has_it = |&side: &usize| self.tunnel(program, side)["mtu"].as_u64() == Some(MTU);
            if GATEWAYS.iter().all(has_it) {
                return Ok(());
            }
            self.nets.check_interrupted()?;
            thread::sleep(Duration::from_millis(50));
        }
        // Measured all the same: a user would not know either.
        Ok(())
    }

    /// The status of the tunnel at one end; null if the gateway does not say.
    fn tunnel(&self, program: &str, side: usize) -> Value {
        let command = ["netns", "exec", &self.nets.names[side], program];
        let output = Command::new("ip").args(command).args(["status", "--json"]).output();
        let status: Value = output
            .ok()
            .and_then(|output| serde_json::from_slice(&output.stdout).ok())
            .unwrap_or_default();
        status["tunnels"][0].clone()
    }
}

/// Octets of payload in all TCP segments that this thread's namespace has received.
///
/// iperf3 does not count what comes after its time, though it was sent within it.
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

//! Joins two hosts by a cable, and measures between them.

use crate::Namespaces;
use crate::probe::{Iperf, ping};

/// How long a ping is waited for, in milliseconds.
const PATIENCE: f64 = 1e3;

/// Two hosts, joined at `eth0`: 10.9.0.1 and fd09::1 at one end, 10.9.0.2 and fd09::2 at the other.
#[derive(Debug)]
pub struct Pair {
    /// The namespaces of the hosts, and their programs.
    pub nets: Namespaces,
    /// The names of their namespaces.
    pub ends: [String; 2],
}

impl Pair {
    /// Makes the hosts; `trackway` is the path of the program under test.
    ///
    /// # Errors
    /// When we are not root, or a program is missing.
    pub fn new(trackway: impl Into<String>) -> anyhow::Result<Self> {
        let mut nets = Namespaces::new(trackway)?;
        let ends = [nets.add("a")?, nets.add("b")?];
        for end in &ends {
            nets.enable_v6(end, true)?;
        }
        nets.cable((&ends[0], "eth0"), (&ends[1], "eth0"))?;
        for (number, end) in (1..).zip(&ends) {
            nets.address(end, "eth0", &format!("10.9.0.{number}/24"))?;
            nets.address(end, "eth0", &format!("fd09::{number}/64"))?;
        }
        Ok(Self { nets, ends })
    }

    /// TCP's goodput from the first end to an address of the other in so many seconds, in bit/s; `args` are further
    /// arguments of `iperf3`.
    ///
    /// # Errors
    /// As [`Iperf::goodput`].
    pub fn goodput(&mut self, address: &str, seconds: u32, args: &[&str]) -> anyhow::Result<f64> {
        let between = (&self.ends[0][..], &self.ends[1][..]);
        Iperf { between, address, seconds, left_out: 1, args }.goodput(&mut self.nets)
    }

    /// Round trip times of so many pings from the first end, in microseconds.
    ///
    /// # Errors
    /// When no ping is answered.
    pub fn ping(&self, address: &str, count: u32) -> anyhow::Result<Vec<f64>> {
        // The first pings wait for hardware addresses, among other things.
        ping(&self.nets, &self.ends[0], address, (10, 0.01, 1))?;
        let mut times = ping(&self.nets, &self.ends[0], address, (count, 0.01, 1))?;
        // A ping without answer counts as the longest wait.
        times.resize(times.len().max(count as usize), PATIENCE);
        Ok(times.into_iter().map(|milliseconds| milliseconds * 1e3).collect())
    }
}

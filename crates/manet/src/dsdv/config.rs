//! Configuration of DSDV, with defaults.

use std::time::Duration;

use base::parameter::Kind;

base::parameters! {
    /// The settings of DSDV.
    pub static PARAMETERS = "dsdv";

    /// The parameters of DSDV, with the defaults of ns-2.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from default() {
        /// The longest time from one full update to the next.
        #[allowed(Kind::period(Duration::from_millis(100)..=HOUR))]
        pub update_interval: Duration = Duration::from_secs(15);

        /// The part of that time that is random.
        #[allowed(Kind::share(0.0..=0.9))]
        pub update_spread: f64 = 0.25;

        /// How long nothing may be heard of a neighbour until its routes are given up.
        #[allowed(Kind::count(1..=100).of("intervals"))]
        pub hold: u32 = 3;

        /// The least time from an update to one that tells of changes.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub trigger_spacing: Duration = Duration::from_secs(1);

        /// How long the best route is taken to come after the first, until that was measured; twice as long passes
        /// until others are told of it.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub settling: Duration = Duration::from_secs(6);

        /// How much of the settling time that was known remains when another one was measured.
        #[allowed(Kind::share(0.0..=1.0))]
        pub settling_weight: f64 = 0.875;

        /// The first update is sent within this time.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub start_jitter: Duration = Duration::from_secs(2);

        /// Updates are sent up to this much later than they are due.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(60)))]
        pub jitter: Duration = Duration::from_millis(10);

        /// Whether a neighbour is given up that the link layer cannot reach.
        #[allowed(Kind::Flag)]
        pub link_breaks: bool = false;

        /// Whether others are told of a default route through this node.
        #[allowed(Kind::Flag)]
        pub is_gateway as "gateway": bool = false;

        /// Destinations that are remembered.
        #[allowed(Kind::count(2..=100_000))]
        pub destinations: usize = 1_000;

        /// Neighbours that are remembered.
        #[allowed(Kind::count(1..=10_000))]
        pub neighbours: usize = 250;
    }
}

impl Config {
    /// How long a neighbour may be silent.
    pub(crate) fn patience(&self) -> Duration {
        self.update_interval * self.hold
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}

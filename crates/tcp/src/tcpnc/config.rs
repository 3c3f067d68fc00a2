//! Configuration of the layer, with defaults.

use std::time::Duration;

use base::parameter::{Kind, Rule};

base::parameters! {
    /// The settings of the layer below one TCP.
    pub static PARAMETERS = "tcpnc";

    /// The parameters of a layer; both ends may differ in all but the protocol.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from default() {
        /// The IP protocol number of its packets, the same at both ends.
        #[allowed(Kind::count(1..=255))]
        pub protocol: u8 = super::PROTOCOL;

        /// Combinations sent after those of a coding window (k).
        #[allowed(Kind::count(0..=255))]
        pub extra: usize = 3;

        /// Packets of a coding window (n); without, it follows the loss rate.
        #[allowed(Kind::count(1..=255).of("packets"))]
        pub window: Option<usize> = None;

        /// The probability that a coding window is to survive with.
        #[allowed(SHARE)]
        pub target: f64 = 0.9;

        /// Packets of a coding window that follows the loss rate, at most.
        #[allowed(Kind::count(1..=255).of("packets"))]
        pub max_window: usize = 100;

        /// The loss rate to expect before there is an estimate.
        #[allowed(SHARE)]
        pub initial_loss: f64 = 0.1;

        /// Transmissions over which the loss rate is taken.
        #[allowed(Kind::count(1..=1_000_000).of("packets"))]
        pub period: u32 = 100;

        /// The weight of a new sample in the mean loss rate.
        #[allowed(SHARE)]
        pub gain: f64 = 0.25;

        /// Whether one retransmission of TCP's repairs all packets known to be missing.
        #[allowed(Kind::Flag)]
        pub enhanced_retransmission: bool = true;

        /// The probability that a repair is to bring all that is missing; 0 sends as many combinations as packets are
        /// missing.
        #[allowed(SHARE)]
        pub repair_target: f64 = 0.9;

        /// Combinations sent at once for what is missing from one coding window, at most.
        #[allowed(Kind::count(1..=1_000).of("packets"))]
        pub max_burst: usize = 32;

        /// A coding window is closed early when TCP sends nothing new for so long.
        #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(60)))]
        pub flush_after: Duration = Duration::from_millis(100);

        /// Whether TCP is told of every arrival, so that redundancy looks like duplicates, or only of those that leave
        /// a packet unseen.
        #[allowed(Kind::Flag)]
        pub acknowledges_redundancy: bool = false;

        /// Packets held for coding and for decoding, at most, each.
        #[allowed(Kind::count(3..=32_768).of("packets"))]
        pub max_packets: usize = 1_024;

        /// Octets held for decoding, at most.
        #[allowed(Kind::count(65_536..=1 << 30).of("octets"))]
        pub receive_buffer: usize = 1 << 20;
    }

    rules [Rule {
        names: &["max-packets", "max-window"],
        allowed: "max-packets is more than twice max-window",
        holds: |it| it.max_packets > 2 * it.max_window,
    }]
}

const SHARE: Kind = Kind::Share { least: 0.0, most: 1.0 };

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}

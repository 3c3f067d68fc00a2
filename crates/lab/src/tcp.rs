//! TCP as the simulator of the papers has it.

use proto::tcp::{Algorithm, Config, FullAck, Growth, Rto};

/// The same parameters in the TCP of ns-3 3.37.
#[must_use]
pub fn as_ns3(config: Config) -> Config {
    Config {
        sack: false,
        duplicate_sack: false,
        nagle: false,
        congestion: Algorithm::NewReno { growth: Growth::PerAck },
        initial_window_after_syn_loss: config.initial_window,
        restart_after_idle: false,
        validate_window: false,
        full_ack: FullAck::Ssthresh,
        rto: Rto { time_repeats: false, forgive: true, ..config.rto },
        ..config
    }
}

//! TCP as the simulator of the papers has it, and as hosts have it.

use std::time::Duration;

use proto::tcp::{
    Algorithm, Config, Congestion, DelayedAck, FullAck, Growth, Limit, LossRecovery, Offer, Rto,
};

/// The same parameters in the TCP of ns-3 3.37.
#[must_use]
pub fn as_ns3(config: Config) -> Config {
    Config {
        offer: Offer { sack: false, duplicate_sack: false, ..config.offer },
        nagle: false,
        congestion: Congestion {
            algorithm: Algorithm::NewReno { growth: Growth::PerAck },
            window_after_syn_loss: config.congestion.initial_window,
            restart_after_idle: false,
            validate_window: false,
            ..config.congestion
        },
        recovery: LossRecovery { full_ack: FullAck::Ssthresh, ..config.recovery },
        rto: Rto { time_repeats: false, forgive: true, ..config.rto },
        ..config
    }
}

/// As Linux has it today, with buffers that its autotuning may reach by default.
#[must_use]
pub fn as_linux(config: Config) -> Config {
    Config {
        // net.ipv4.tcp_wmem and tcp_rmem: 4 MB, and half of 6 MB for the window.
        send_buffer: 4 << 20,
        receive_buffer: 3 << 20,
        max_holes: 4_096,
        recovery: LossRecovery { undo_timeouts: true, ..config.recovery },
        congestion: Congestion {
            // A handshake that was only slow is told by its timestamp from one that lost a segment.
            window_after_syn_loss: config.congestion.initial_window,
            algorithm: Algorithm::CUBIC,
            ..config.congestion
        },
        delayed_ack: DelayedAck { segments: 2, delay: Duration::from_millis(40) },
        rto: Rto {
            // What the deviation adds is never below the least RTO.
            min: LINUX_MIN_RTO,
            granularity: LINUX_MIN_RTO,
            max: Duration::from_secs(120),
            ..config.rto
        },
        // net.ipv4.tcp_retries2 and tcp_syn_retries.
        r2: Limit::Retransmissions(15),
        r2_syn: Limit::Retransmissions(6),
        ..config
    }
}

const LINUX_MIN_RTO: Duration = Duration::from_millis(200);

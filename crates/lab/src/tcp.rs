//! Configurations of TCP as in the papers' simulators and as in hosts.

use std::time::Duration;

use ::tcp::{
    Algorithm, Config, Congestion, DelayedAck, FullAck, Growth, InitialWindow, Limit, LossRecovery,
    Offer, Rto, adaptive_pacing, vegas,
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

/// The same parameters in the one-way TCP agents of ns-2.35 with segments of 1,460 octets, windows
/// counted in packets there: NewReno with a sink that acknowledges each segment.
///
/// What their agents lack and ours has: a receiver's window (their `window_` of 20 packets is the
/// receive buffer here, the same bound), octets instead of packets, half of the flight instead of
/// half of the window as threshold, and a round-trip time of each acknowledgement instead of one of
/// each window. Theirs send at most two segments for an acknowledgement in recovery, ours what the
/// window allows. Their clock of 10 ms rounds round-trip times; here it is the least deviation.
#[must_use]
pub fn as_ns2(config: Config) -> Config {
    Config {
        mss: Some(NS2_SEGMENT),
        receive_buffer: usize::from(NS2_SEGMENT) * NS2_WINDOW,
        offer: Offer {
            window_scaling: false,
            timestamps: false,
            sack: false,
            duplicate_sack: false,
            ecn: false,
            ..config.offer
        },
        nagle: false,
        delayed_ack: DelayedAck { segments: 1, delay: Duration::ZERO },
        rto: Rto {
            initial: Duration::from_secs(3),
            syn: Duration::from_secs(3),
            after_syn_timeout: Duration::from_secs(3),
            min: Duration::from_millis(200),
            max: Duration::from_secs(60),
            granularity: Duration::from_millis(10),
            time_repeats: false,
            forgive: false,
            ..Rto::default()
        },
        congestion: Congestion {
            algorithm: Algorithm::NewReno { growth: Growth::PerAck },
            initial_window: InitialWindow::Segments(2),
            window_after_syn_loss: InitialWindow::Segments(2),
            initial_ssthresh: Some(u64::from(NS2_SEGMENT) * NS2_WINDOW as u64),
            restart_after_idle: true,
            validate_window: false,
        },
        recovery: LossRecovery {
            duplicate_threshold: 3,
            limited_transmit: true,
            impatient: true,
            undo_timeouts: false,
            full_ack: FullAck::Ssthresh,
            lost_repairs: false,
        },
        // Their agents never give up.
        r2: Limit::Never,
        r2_syn: Limit::Never,
        ..config
    }
}

/// TCP Vegas in that simulator; `alpha`, `beta` and `gamma` in segments.
#[must_use]
pub fn ns2_vegas(alpha: f64, beta: f64, gamma: f64) -> Config {
    let config = vegas::Config { alpha, beta, gamma, ..vegas::Config::of(vegas::Variant::Ns2) };
    with_algorithm(as_ns2(Config::default()), Algorithm::Vegas(config))
}

/// TCP-AP like its agent for ns-2, which never backs its timer off.
///
/// Hops come from the TTL of acknowledgements and all count as radio hops: users with wired hops behind the radios
/// set `wired` of its [`Hops`](adaptive_pacing::Hops).
#[must_use]
pub fn ns2_tcp_ap() -> Config {
    let pacing = adaptive_pacing::Config {
        growth: Growth::PerAck,
        ..adaptive_pacing::Config::of(adaptive_pacing::Variant::Ns2)
    };
    let config = as_ns2(Config::default());
    let config = Config { rto: Rto { backoff: 1.0, ..config.rto }, ..config };
    with_algorithm(config, Algorithm::TcpAp(pacing))
}

fn with_algorithm(config: Config, algorithm: Algorithm) -> Config {
    Config { congestion: Congestion { algorithm, ..config.congestion }, ..config }
}

/// Octets of the papers' segments.
const NS2_SEGMENT: u16 = 1_460;
/// `window_`, in packets, which is the first slow-start threshold too.
const NS2_WINDOW: usize = 20;

/// NewReno as Linux has it: the window grows by all that is acknowledged, without RFC 3465's limit in slow start. Where
/// acknowledgements overtake each other, one covers what many would have.
pub const LINUX_RENO: Algorithm = Algorithm::NewReno { growth: Growth::Octets { limit: u32::MAX } };

/// TCP like Linux today, with buffers up to the default limit of autotuning.
#[must_use]
pub fn as_linux(config: Config) -> Config {
    Config {
        // net.ipv4.tcp_wmem and tcp_rmem: 4 MB, and half of 6 MB for the window.
        send_buffer: 4 << 20,
        receive_buffer: 3 << 20,
        max_holes: 4_096,
        recovery: LossRecovery { undo_timeouts: true, ..config.recovery },
        congestion: Congestion {
            // Timestamps distinguish a slow handshake from a lost segment.
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ::tcp::Finding;
    use base::quantity::{BitRate, Probability};
    use base::time::Time;
    use sim::app::transfer;
    use sim::channel::{self, Loss};
    use sim::{InterfaceConfig, LinkConfig, World};

    use super::*;

    /// The most octets in flight from a sender over three links of 2 Mbit/s, and the counters of its TCP.
    fn run(tcp: Config, loss: f64) -> (u64, ::tcp::Stats) {
        let channel = channel::Config {
            rate: BitRate::from_bits_per_s(2_000_000).expect("more than 0"),
            delay: Duration::from_millis(1),
            loss: Loss::random(Probability::new(loss).expect("a probability")),
            ..channel::Config::default()
        };
        let config = LinkConfig::symmetric(channel, InterfaceConfig::default());
        let mut world = World::new(1);
        let nodes = ["a", "b", "c", "d"].map(|name| world.add_node(name));
        for pair in nodes.windows(2) {
            world.connect(pair[0], pair[1], &config);
        }
        world.auto_routes();
        let to = SocketAddr::new(world.address(nodes[3]).expect("it has a link"), 9);
        let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(to, 1 << 30) };
        let sender = world.add_app(nodes[0], transfer::Sender::new(config));
        let sink = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
        world.add_app(nodes[3], transfer::Sink::new(sink));
        let mut most = 0;
        for tenth in 1..=200 {
            world.run_until(Time::from_nanos(tenth * 100_000_000));
            most = most.max(world.connection(sender).map_or(0, |tcp| tcp.flight_size()));
        }
        (most, *world.connection(sender).expect("it goes on").stats())
    }

    #[test]
    fn a_sender_of_ns2_has_twenty_segments_in_flight_and_each_is_acknowledged() {
        let (most, stats) = run(as_ns2(Config::default()), 0.0);

        assert_eq!(most, 20 * 1_460);
        assert!(stats.received.segments >= stats.sent.data_segments - 20, "{stats:?}");
        assert_eq!(stats.sent.octets / (stats.sent.data_segments - 1), 1_460);
    }

    /// Nine of ten acknowledgements come too late to tell anything.
    #[test]
    fn newreno_of_linux_counts_what_overtaken_acknowledgements_would_have() {
        let window = |algorithm| {
            let there = channel::Config {
                rate: BitRate::from_bits_per_s(100_000_000).expect("more than 0"),
                delay: Duration::from_millis(20),
                ..channel::Config::default()
            };
            let back = channel::Config {
                jitter: Duration::from_millis(20),
                reorder: true,
                ..there.clone()
            };
            let interface = InterfaceConfig { queue_packets: 10_000, ..InterfaceConfig::default() };
            let link = LinkConfig { back, ..LinkConfig::symmetric(there, interface) };
            let mut world = World::new(1);
            let [source, sink] = ["source", "sink"].map(|name| world.add_node(name));
            world.connect(source, sink, &link);
            let to = SocketAddr::new(world.address(sink).expect("it has a link"), 9);
            let tcp = with_algorithm(as_linux(Config::default()), algorithm);
            let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(to, 1 << 30) };
            let sender = world.add_app(source, transfer::Sender::new(config));
            world.add_app(
                sink,
                transfer::Sink::new(transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) }),
            );
            world.run_until(Time::from_nanos(500_000_000));
            world.connection(sender).expect("it goes on").cwnd()
        };

        let (linux, limited) = (window(LINUX_RENO), window(Algorithm::default()));

        assert!(linux > 2 * limited, "{linux} and {limited}");
    }

    #[test]
    fn vegas_of_ns2_keeps_its_queue_short() {
        let (most, stats) = run(ns2_vegas(2.0, 2.0, 1.0), 0.0);

        // The path holds 3 segments and an acknowledgement's way back; two more may wait.
        assert!(most <= 8 * 1_460, "{most}");
        let Finding::Vegas(finding) = stats.finding else { panic!("{:?}", stats.finding) };
        assert!(finding.base_rtt > Duration::from_millis(20), "{finding:?}");
        assert!((1_000..=3_000).contains(&finding.diff_milli), "{finding:?}");
    }

    #[test]
    fn tcp_ap_of_ns2_counts_its_hops_and_its_timer_does_not_back_off() {
        let (_, stats) = run(ns2_tcp_ap(), 0.0);

        let Finding::TcpAp(finding) = stats.finding else { panic!("{:?}", stats.finding) };
        assert_eq!(finding.hops, 3);
        assert!(finding.interval >= Duration::from_micros(6_288), "one hop: {finding:?}");
        assert!(finding.interval < Duration::from_millis(20), "{finding:?}");

        // With all lost after a while, the timer expires as often as its shortest allows.
        let timeouts = |tcp| run(tcp, 0.6).1.feedback.timeouts;
        assert!(timeouts(ns2_tcp_ap()) > 2 * timeouts(as_ns2(Config::default())));
    }
}

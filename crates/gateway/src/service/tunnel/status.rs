//! What an operator sees of the tunnels.

use std::net::SocketAddr;

use proto::nc::{Estimates, Stats};
use serde::Serialize;

use super::Shared;
use super::state::Link;
use crate::service::{Report, Sample, entries, rounded};

/// One tunnel.
#[derive(Serialize)]
struct Status<'a> {
    peer: &'a str,
    state: &'static str,
    endpoint: Option<SocketAddr>,
    sessions: u64,
    rtt_ms: f64,
    rate_bit_s: f64,
    loss: f64,
    burst: f64,
    redundancy: f64,
    queued_octets: usize,
    unacknowledged: usize,
    mtu: usize,
    whole: usize,
    path_mtu: usize,
    #[serde(flatten)]
    stats: Stats,
}

impl Shared {
    /// How the tunnels are, together and each.
    pub(super) fn report(&self) -> Report {
        let state = self.state();
        let now = self.now();
        let mut counters = entries("tunnel_", &self.counters);
        counters.extend(entries("secure_", &state.peers().totals()));
        let mut samples = Vec::new();
        let mut tunnels = Vec::new();
        for link in state.links() {
            let Estimates { rtt, rate, loss, burst, queued, unacknowledged, path_mtu, whole } =
                estimates(link);
            let stats = stats(link);
            let condition = condition(link, state.peers().has_session(now, link.peer));
            let mut sample = |name: &str, value: f64| {
                let of = ("peer", link.config.name.clone());
                samples.push(Sample { name: format!("tunnel_{name}"), of, value });
            };
            sample("up", f64::from(u8::from(condition == "up")));
            sample("rtt_seconds", rtt.as_secs_f64());
            sample("rate_bits_per_second", rounded(rate, 3));
            sample("loss_ratio", rounded(loss, 6));
            sample("queued_octets", queued as f64);
            sample("path_mtu_octets", path_mtu as f64);
            for (name, value) in entries("", &stats) {
                sample(&name, value as f64);
            }
            tunnels.push(Status {
                peer: &link.config.name,
                state: condition,
                endpoint: state.peers().endpoint(link.peer),
                sessions: link.sessions,
                rtt_ms: rounded(rtt.as_secs_f64() * 1e3, 3),
                rate_bit_s: rounded(rate, 0),
                loss: rounded(loss, 4),
                burst: rounded(burst, 1),
                redundancy: rounded(redundancy(&stats), 4),
                queued_octets: queued,
                unacknowledged,
                mtu: link.session.as_ref().map_or(0, |session| session.core.mtu()),
                whole,
                path_mtu,
                stats,
            });
        }
        Report { samples, ..Report::new(counters, "tunnels", &tunnels) }
    }
}

fn condition(link: &Link, has_session: bool) -> &'static str {
    match &link.session {
        Some(session) if session.has_keys && has_session => {
            if session.is_up {
                "up"
            } else {
                "path down"
            }
        }
        _ => "no session",
    }
}

fn estimates(link: &Link) -> Estimates {
    link.session.as_ref().map(|session| session.core.estimates()).unwrap_or_default()
}

fn stats(link: &Link) -> Stats {
    link.session.as_ref().map(|session| session.core.stats()).unwrap_or_default()
}

/// Sources sent again and repairs, for each source.
fn redundancy(stats: &Stats) -> f64 {
    let extra = stats.sent.sources_resent + stats.sent.repairs_sent;
    if stats.sent.sources_sent == 0 { 0.0 } else { extra as f64 / stats.sent.sources_sent as f64 }
}

//! What an operator sees of the tunnels.

use std::fmt::Write as _;

use proto::nc::{Estimates, Stats};

use super::Shared;
use super::state::Link;
use crate::supervisor::counters::Entry;

impl Shared {
    /// The counters of all tunnels together, by name.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let counters = &self.counters;
        let mut entries = vec![
            ("tunnel_device_reads", counters.device_reads.value()),
            ("tunnel_device_malformed", counters.device_malformed.value()),
            ("tunnel_packets_unrouted", counters.packets_unrouted.value()),
            ("tunnel_packets_unready", counters.packets_unready.value()),
            ("tunnel_syns_clamped", counters.syns_clamped.value()),
            ("tunnel_icmp_sent", counters.icmp_sent.value()),
            ("tunnel_icmp_suppressed", counters.icmp_suppressed.value()),
            ("tunnel_device_writes", counters.device_writes.value()),
            ("tunnel_device_refused", counters.device_refused.value()),
            ("tunnel_packets_disallowed", counters.packets_disallowed.value()),
            ("tunnel_receives", counters.receives.value()),
            ("tunnel_datagrams_stale", counters.datagrams_stale.value()),
            ("tunnel_datagrams_refused", counters.datagrams_refused.value()),
            ("tunnel_datagrams_unsealed", counters.datagrams_unsealed.value()),
            ("tunnel_control_refused", counters.control_refused.value()),
            ("tunnel_socket_full", counters.socket_full.value()),
        ];
        let totals = self.state().peers().totals();
        entries.extend([
            ("secure_busy", totals.busy),
            ("secure_expired", totals.expired),
            ("secure_forged", totals.forged),
            ("secure_malformed", totals.malformed),
            ("secure_not_for_us", totals.not_for_us),
            ("secure_replayed", totals.replayed),
            ("secure_stale", totals.stale),
            ("secure_too_old", totals.too_old),
            ("secure_unknown", totals.unknown),
            ("secure_unknown_key", totals.unknown_key),
            ("secure_cookies", totals.cookies),
            ("secure_overflow", totals.overflow),
        ]);
        entries
    }

    /// Each tunnel as a JSON object, in an array.
    pub(super) fn status(&self) -> String {
        let state = self.state();
        let now = self.now();
        let mut json = String::from("[");
        for (position, link) in state.links().iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let endpoint = state.peers().endpoint(link.peer);
            let endpoint = endpoint.map_or("null".to_owned(), |at| format!("\"{at}\""));
            let estimates = estimates(link);
            let _ = write!(
                json,
                "{comma}{{\"peer\":{},\"state\":\"{}\",\"endpoint\":{endpoint},\"sessions\":{}",
                quoted(&link.name),
                condition(link, state.peers().has_session(now, link.peer)),
                link.sessions,
            );
            let Estimates { rtt, rate, loss, burst, queued, unacknowledged, path_mtu } = estimates;
            let stats = stats(link);
            let _ = write!(
                json,
                ",\"rtt_ms\":{:.3},\"rate_bit_s\":{:.0},\"loss\":{:.4},\"burst\":{:.1},\
                 \"redundancy\":{:.4},\"queued_octets\":{queued},\
                 \"unacknowledged\":{unacknowledged},\"mtu\":{},\"path_mtu\":{path_mtu}",
                rtt.as_secs_f64() * 1e3,
                finite(rate),
                finite(loss),
                finite(burst),
                redundancy(&stats),
                link.session.as_ref().map_or(0, |session| session.core.mtu()),
            );
            for (name, value) in stats_entries(&stats) {
                let _ = write!(json, ",\"{name}\":{value}");
            }
            json.push('}');
        }
        json.push(']');
        json
    }

    /// Each tunnel's counters in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let state = self.state();
        let now = self.now();
        let mut text = String::new();
        for link in state.links() {
            let peer = quoted(&link.name);
            let mut line = |name: &str, value: f64| {
                let _ = writeln!(text, "trackway_tunnel_{name}{{peer={peer}}} {value}");
            };
            let is_up = condition(link, state.peers().has_session(now, link.peer)) == "up";
            let estimates = estimates(link);
            line("up", f64::from(u8::from(is_up)));
            line("rtt_seconds", estimates.rtt.as_secs_f64());
            line("rate_bits_per_second", finite(estimates.rate));
            line("loss_ratio", finite(estimates.loss));
            line("queued_octets", estimates.queued as f64);
            line("path_mtu_octets", estimates.path_mtu as f64);
            for (name, value) in stats_entries(&stats(link)) {
                line(name, value as f64);
            }
        }
        text
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
    let extra = stats.sources_resent + stats.repairs_sent;
    if stats.sources_sent == 0 { 0.0 } else { extra as f64 / stats.sources_sent as f64 }
}

/// JSON knows no other numbers.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// A text in quotes as JSON and Prometheus have it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The counters of a core by name.
fn stats_entries(stats: &Stats) -> Vec<Entry> {
    vec![
        ("packets_in", stats.packets_in),
        ("octets_in", stats.octets_in),
        ("packets_out", stats.packets_out),
        ("octets_out", stats.octets_out),
        ("refused_malformed", stats.refused_malformed),
        ("refused_too_big", stats.refused_too_big),
        ("refused_down", stats.refused_down),
        ("queue_marked", stats.queue_marked),
        ("queue_dropped", stats.queue_dropped),
        ("queue_overflowed", stats.queue_overflowed),
        ("datagrams_sent", stats.datagrams_sent),
        ("octets_sent", stats.octets_sent),
        ("datagrams_received", stats.datagrams_received),
        ("datagrams_malformed", stats.malformed),
        ("impossible_reports", stats.impossible_reports),
        ("sources_sent", stats.sources_sent),
        ("sources_resent", stats.sources_resent),
        ("repairs_sent", stats.repairs_sent),
        ("reports_sent", stats.reports_sent),
        ("timeouts", stats.timeouts),
        ("sources_expired", stats.sources_expired),
        ("sources_received", stats.sources_received),
        ("duplicates", stats.duplicates),
        ("sources_recovered", stats.sources_recovered),
        ("sources_given_up", stats.sources_given_up),
        ("repairs_useful", stats.repairs_useful),
        ("repairs_redundant", stats.repairs_redundant),
        ("repairs_stale", stats.repairs_stale),
        ("repairs_full", stats.repairs_full),
    ]
}

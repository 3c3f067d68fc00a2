//! What the gateway has seen and why it dropped what it dropped.

use std::fmt::Write as _;

/// Counters of the data path; those of HBH and of the neighbours are their own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames taken from the kernel; one may be a train of many segments.
    pub frames_intercepted: u64,
    /// Packets in them.
    pub packets_intercepted: u64,
    /// Frames that the kernel sent into our device of its own accord; dropped.
    pub frames_stray: u64,
    /// Frames that the kernel describes wrongly; dropped.
    pub frames_malformed: u64,
    /// Packets sent plain: what neighbours say to each other, or the next hop had just stopped
    /// speaking HBH.
    pub packets_plain: u64,
    /// Packets past HBH dropped because too many waited for the interface.
    pub packets_plain_full: u64,
    /// Packets handed to the kernel, which delivers, forwards, drops, or answers with an error.
    pub packets_released: u64,
    /// Packets that the kernel did not take.
    pub packets_release_failed: u64,
    /// Packets too long for the next hop, cut into fragments.
    pub packets_fragmented: u64,
    /// Packets too long for the next hop that may not be cut; dropped, the sender is told.
    pub packets_too_big: u64,
    /// Packets refused because a queue was full; dropped.
    pub packets_full: u64,
    /// Packets that turned out to be no IP; dropped.
    pub packets_malformed: u64,
    /// Packets taken back from a neighbour because their route changed or it went down.
    pub packets_rerouted: u64,
    /// ... of those, this node's own, sent again.
    pub packets_returned: u64,
    /// ... of those, given to the kernel although it had no route, after some seconds.
    pub packets_unrouted: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// ICMP errors that could not be sent.
    pub icmp_failed: u64,
    /// ICMP errors not sent because there were too many.
    pub icmp_suppressed: u64,
    /// SYNs whose segment size was lowered.
    pub syns_clamped: u64,
    /// Frames received from neighbours.
    pub frames_received: u64,
    /// Frames for other stations; dropped.
    pub frames_foreign: u64,
    /// Frames that carry no IP packet of our protocol; dropped.
    pub frames_not_hbh: u64,
    /// HBH packets from stations that are no neighbours; dropped.
    pub frames_unknown_peer: u64,
    /// HBH packets in the name of a neighbour that it did not send; dropped.
    pub frames_forged: u64,
    /// HBH packets of a neighbour that came before, or far too late; dropped.
    pub frames_replayed: u64,
    /// Hellos that cannot be read; dropped.
    pub hellos_malformed: u64,
    /// Hellos of another version; dropped.
    pub hellos_other_version: u64,
    /// Hellos with another group key or none, or with one when we have none; dropped.
    pub hellos_unauthenticated: u64,
    /// Hellos that claim our group key without having it; dropped.
    pub hellos_forged: u64,
    /// Frames sent to neighbours.
    pub frames_sent: u64,
    /// Frames that the interface refused; dropped.
    pub frames_send_failed: u64,
    /// Times the interface had no more room.
    pub links_busy: u64,
    /// Changes of routes, links or addresses.
    pub route_changes: u64,
}

/// A counter's name and value.
pub type Entry = (&'static str, u64);

impl Counters {
    /// All counters by name.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        vec![
            ("frames_intercepted", self.frames_intercepted),
            ("packets_intercepted", self.packets_intercepted),
            ("frames_stray", self.frames_stray),
            ("frames_malformed", self.frames_malformed),
            ("packets_plain", self.packets_plain),
            ("packets_plain_full", self.packets_plain_full),
            ("packets_released", self.packets_released),
            ("packets_release_failed", self.packets_release_failed),
            ("packets_fragmented", self.packets_fragmented),
            ("packets_too_big", self.packets_too_big),
            ("packets_full", self.packets_full),
            ("packets_malformed", self.packets_malformed),
            ("packets_rerouted", self.packets_rerouted),
            ("packets_returned", self.packets_returned),
            ("packets_unrouted", self.packets_unrouted),
            ("icmp_sent", self.icmp_sent),
            ("icmp_failed", self.icmp_failed),
            ("icmp_suppressed", self.icmp_suppressed),
            ("syns_clamped", self.syns_clamped),
            ("frames_received", self.frames_received),
            ("frames_foreign", self.frames_foreign),
            ("frames_not_hbh", self.frames_not_hbh),
            ("frames_unknown_peer", self.frames_unknown_peer),
            ("frames_forged", self.frames_forged),
            ("frames_replayed", self.frames_replayed),
            ("hellos_malformed", self.hellos_malformed),
            ("hellos_other_version", self.hellos_other_version),
            ("hellos_unauthenticated", self.hellos_unauthenticated),
            ("hellos_forged", self.hellos_forged),
            ("frames_sent", self.frames_sent),
            ("frames_send_failed", self.frames_send_failed),
            ("links_busy", self.links_busy),
            ("route_changes", self.route_changes),
        ]
    }
}

/// The counters of HBH by name.
#[must_use]
pub fn hbh_entries(stats: &proto::hbh::Stats) -> Vec<Entry> {
    // Without `..`, so that none is forgotten.
    let proto::hbh::Stats {
        packets_taken,
        packets_absorbed,
        packets_marked,
        packets_full,
        packets_full_inside,
        packets_malformed,
        packets_too_big,
        packets_unknown_peer,
        packets_expired,
        packets_reset,
        packets_abandoned,
        data_sent,
        data_repeated,
        data_spare,
        data_older,
        data_superseded,
        repairs_sent,
        repairs_stray,
        repairs_received,
        packets_recovered,
        data_received,
        data_duplicate,
        data_deferred,
        acks_sent,
        acks_ridden,
        acks_received,
        acks_stray,
        congestion_received,
        messages_damaged,
        messages_malformed,
        messages_unknown_peer,
        gaps_given_up,
        flows,
        packets_held,
    } = *stats;
    vec![
        ("hbh_packets_taken", packets_taken),
        ("hbh_packets_absorbed", packets_absorbed),
        ("hbh_packets_marked", packets_marked),
        ("hbh_packets_full", packets_full),
        ("hbh_packets_full_inside", packets_full_inside),
        ("hbh_packets_malformed", packets_malformed),
        ("hbh_packets_too_big", packets_too_big),
        ("hbh_packets_unknown_peer", packets_unknown_peer),
        ("hbh_packets_expired", packets_expired),
        ("hbh_packets_reset", packets_reset),
        ("hbh_packets_abandoned", packets_abandoned),
        ("hbh_data_sent", data_sent),
        ("hbh_data_repeated", data_repeated),
        ("hbh_data_spare", data_spare),
        ("hbh_data_older", data_older),
        ("hbh_data_superseded", data_superseded),
        ("hbh_repairs_sent", repairs_sent),
        ("hbh_repairs_stray", repairs_stray),
        ("hbh_repairs_received", repairs_received),
        ("hbh_packets_recovered", packets_recovered),
        ("hbh_data_received", data_received),
        ("hbh_data_duplicate", data_duplicate),
        ("hbh_data_deferred", data_deferred),
        ("hbh_acks_sent", acks_sent),
        ("hbh_acks_ridden", acks_ridden),
        ("hbh_acks_received", acks_received),
        ("hbh_acks_stray", acks_stray),
        ("hbh_congestion_received", congestion_received),
        ("hbh_messages_damaged", messages_damaged),
        ("hbh_messages_malformed", messages_malformed),
        ("hbh_messages_unknown_peer", messages_unknown_peer),
        ("hbh_gaps_given_up", gaps_given_up),
        ("hbh_flows", flows),
        ("hbh_packets_held", packets_held),
    ]
}

/// Counters as one JSON object.
#[must_use]
pub fn as_json(entries: &[Entry]) -> String {
    let mut json = String::from("{");
    for (position, (name, value)) in entries.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        let _ = write!(json, "{comma}\"{name}\":{value}");
    }
    json.push_str("}\n");
    json
}

/// Counters in Prometheus' text format.
#[must_use]
pub fn as_metrics(entries: &[Entry]) -> String {
    let mut text = String::new();
    for (name, value) in entries {
        let _ = writeln!(text, "trackway_{name} {value}");
    }
    text
}

/// Counters as one JSON object, and after them what `status` names, each a JSON value.
#[must_use]
pub fn status_json(entries: &[Entry], status: &[(&'static str, String)]) -> String {
    let mut json = as_json(entries);
    json.truncate(json.trim_end().len() - 1);
    for (name, value) in status {
        let comma = if json.len() == 1 { "" } else { "," };
        let _ = write!(json, "{comma}\"{name}\":{value}");
    }
    json.push_str("}\n");
    json
}

/// Writes a file so that a reader sees the old or the new one, never a part.
pub(crate) fn replace(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

//! The counters of a node.

use serde::{Serialize, Serializer};

use super::record::FrameKind;

/// The counters of a node since its start; octets on the air are those of frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Transmissions made.
    pub transmissions: u64,
    /// Nanoseconds for which the transmitter was on.
    #[serde(rename = "keyed_ms", serialize_with = "in_milliseconds")]
    pub keyed_nanos: u64,
    /// Frames sent.
    #[serde(flatten, serialize_with = "frames")]
    pub sent: ByKind,
    /// Frames heard.
    #[serde(flatten)]
    pub received: Received,
    /// S_PDUs of clients.
    #[serde(flatten)]
    pub s_pdus: SPdus,
    /// Links to other nodes.
    #[serde(flatten)]
    pub links: Links,
    /// Transmissions whose expected answer did not come.
    pub silences: u64,
    /// Resets of sequence numbers.
    pub resets: u64,
    /// Warnings sent.
    pub warnings_sent: u64,
    /// Records dropped because nobody fetched them.
    pub records_dropped: u64,
    /// Times when the modem failed to report the end of its work.
    pub modem_silences: u64,
    /// Changes of the data rate.
    pub rate_changes: u64,
}

/// Frames heard, and what was wrong with some.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Nanoseconds of carrier from other stations.
    #[serde(rename = "carrier_ms", serialize_with = "in_milliseconds")]
    pub nanos: u64,
    /// Frames without errors heard for this node or for all nodes.
    #[serde(rename = "frames_heard")]
    pub heard: u64,
    /// Frames heard for this node with an intact header and a damaged segment.
    #[serde(rename = "frames_damaged")]
    pub damaged: u64,
    /// Frames without errors heard for other nodes.
    #[serde(rename = "frames_foreign")]
    pub foreign: u64,
    /// Malformed C_PDUs, dropped.
    #[serde(rename = "c_pdus_malformed")]
    pub malformed: u64,
    /// Acknowledgements for data never sent.
    pub stray_acks: u64,
    /// Warnings heard.
    pub warnings_heard: u64,
}

/// S_PDUs of clients.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct SPdus {
    /// S_PDUs taken from clients, and their octets.
    #[serde(skip)]
    pub accepted: Tally,
    /// S_PDUs that the peer acknowledged, or that were sent without acknowledgement.
    #[serde(rename = "s_pdus_done")]
    pub done: u64,
    /// S_PDUs that failed, reported as failed to their clients.
    #[serde(rename = "s_pdus_failed")]
    pub failed: u64,
    /// S_PDUs received, and their octets.
    #[serde(skip)]
    pub delivered: Tally,
}

/// Links to other nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Links {
    /// Links made.
    pub links_made: u64,
    /// Links lost or broken.
    pub links_broken: u64,
    /// Calls refused or not answered.
    pub calls_failed: u64,
    /// Requests that failed because too many stations were remembered.
    pub too_many_peers: u64,
}

/// A number of things and their octets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Octets.
    pub octets: u64,
}

/// Frames by purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ByKind {
    /// Acknowledgements.
    pub ack: Tally,
    /// Links, management, resets, warnings.
    pub control: Tally,
    /// First transmissions of data.
    pub data: Tally,
    /// Padding.
    pub padding: Tally,
    /// Retransmissions of data.
    pub repeat: Tally,
}

fn in_milliseconds<S: Serializer>(nanos: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(nanos / 1_000_000)
}

fn frames<S: Serializer>(sent: &ByKind, to: S) -> Result<S::Ok, S::Error> {
    let counts = [
        ("frames_acks", sent.ack),
        ("frames_control", sent.control),
        ("frames_data", sent.data),
        ("frames_padding", sent.padding),
        ("frames_repeated", sent.repeat),
    ];
    to.collect_map(counts.map(|(name, tally)| (name, tally.count)))
}

impl Tally {
    /// Counts one more, with this many octets.
    pub fn add(&mut self, octets: usize) {
        self.count += 1;
        self.octets += octets as u64;
    }
}

impl ByKind {
    /// The frames of a kind.
    #[must_use]
    pub fn of(&mut self, kind: FrameKind) -> &mut Tally {
        match kind {
            FrameKind::Ack => &mut self.ack,
            FrameKind::Control => &mut self.control,
            FrameKind::Data => &mut self.data,
            FrameKind::Padding => &mut self.padding,
            FrameKind::Repeat => &mut self.repeat,
        }
    }
}

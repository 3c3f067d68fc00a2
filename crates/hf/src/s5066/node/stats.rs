//! The counters of a node.

use std::time::Duration;

use base::counter::Countable;

use super::record::FrameKind;

base::counters! {
    /// The counters of a node since its start; octets on the air are those of frames.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Transmissions made.
        pub transmissions: counter(transmissions);
        /// How long the transmitter was on.
        pub keyed as "keyed_ms": counter(ms) in Duration;
        /// Frames sent.
        pub sent: struct ByKind {
            /// Acknowledgements sent.
            pub ack as "frames_acks": counter(frames) in Tally;
            /// Frames sent for links, management, resets and warnings.
            pub control as "frames_control": counter(frames) in Tally;
            /// First transmissions of data.
            pub data as "frames_data": counter(frames) in Tally;
            /// Padding sent.
            pub padding as "frames_padding": counter(frames) in Tally;
            /// Retransmissions of data.
            pub repeat as "frames_repeated": counter(frames) in Tally;
        }
        /// Frames heard, and what was wrong with some.
        pub received: struct Received {
            /// How long other stations' carrier was heard.
            pub lasted as "carrier_ms": counter(ms) in Duration;
            /// Frames without errors heard for this node or for all nodes.
            pub heard as "frames_heard": counter(frames);
            /// Frames heard for this node with an intact header and a damaged segment.
            pub damaged as "frames_damaged": counter(frames);
            /// Frames without errors heard for other nodes.
            pub foreign as "frames_foreign": counter(frames);
            /// Malformed C_PDUs, dropped.
            pub malformed as "c_pdus_malformed": counter(c_pdus);
            /// Acknowledgements for data never sent.
            pub stray_acks: counter(frames);
            /// Warnings heard.
            pub warnings_heard: counter(frames);
        }
        /// S_PDUs of clients.
        pub s_pdus: struct SPdus {
            /// S_PDUs taken from clients, and their octets.
            pub accepted: Tally;
            /// S_PDUs that the peer acknowledged, or that were sent without acknowledgement.
            pub done as "s_pdus_done": counter(s_pdus);
            /// S_PDUs that failed, reported as failed to their clients.
            pub failed as "s_pdus_failed": counter(s_pdus);
            /// S_PDUs received, and their octets.
            pub delivered: Tally;
        }
        /// Links to other nodes.
        pub links: struct Links {
            /// Links made.
            pub links_made: counter(links);
            /// Links lost or broken.
            pub links_broken: counter(links);
            /// Calls refused or not answered.
            pub calls_failed: counter(calls);
            /// Requests that failed because too many stations were remembered.
            pub too_many_peers: counter(requests);
        }
        /// Transmissions whose expected answer did not come.
        pub silences: counter(transmissions);
        /// Resets of sequence numbers.
        pub resets: counter(resets);
        /// Warnings sent.
        pub warnings_sent: counter(frames);
        /// Records dropped because nobody fetched them.
        pub records_dropped: counter(records);
        /// Times when the modem failed to report the end of its work.
        pub modem_silences: counter(times);
        /// Changes of the data rate.
        pub rate_changes: counter(changes);
    }
}

/// A number of things and their octets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Octets.
    pub octets: u64,
}

/// How many.
impl Countable for Tally {
    fn value(&self) -> u64 {
        self.count
    }
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

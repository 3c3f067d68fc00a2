//! Counters of segmentation and reassembly.

base::counters! {
    /// Counters of a node since its start; the last fields are levels.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Messages that programs handed in.
        pub messages: struct Messages {
            /// Messages taken.
            pub taken as "messages_taken": counter(messages);
            /// Messages refused: no room.
            pub full as "messages_full": counter(messages);
            /// Messages refused because of their content.
            pub refused as "messages_refused": counter(messages);
            /// Destinations that have theirs.
            pub delivered as "outcomes_delivered": counter(destinations);
            /// Destinations for which the lifetime ended first.
            pub expired as "outcomes_expired": counter(destinations);
            /// Destinations that refused.
            pub aborted as "outcomes_aborted": counter(destinations);
            /// Destinations that lacked a segment to the end.
            pub lost as "outcomes_lost": counter(destinations);
            /// Destinations that did not answer.
            pub silent as "outcomes_silent": counter(destinations);
            /// Destinations of cancelled messages.
            pub cancelled as "outcomes_cancelled": counter(destinations);
            /// Destinations that were not asked for an acknowledgement.
            pub unacknowledged as "outcomes_sent": counter(destinations);
        }
        /// What was sent.
        pub sent: struct Sent {
            /// Segments sent for the first time.
            pub segments as "sent_segments": counter(segments);
            /// Segments sent again.
            pub again as "sent_again": counter(segments);
            /// Repairs.
            pub repairs as "sent_repairs": counter(repairs);
            /// Acknowledgement requests.
            pub requests as "sent_requests": counter(messages);
            /// Answers: acknowledgements, aborts and confirmations.
            pub answers as "sent_answers": counter(answers);
            /// Octets of all, without UDP and IP.
            pub octets as "sent_octets": counter(octets);
            /// Silent destinations tried at once after a sign of life.
            pub tried as "sent_tried": counter(destinations);
            /// Timeouts.
            pub timeouts: counter(times);
            /// Answers that were not given: too many waited.
            pub answers_full: counter(answers);
            /// Answers about unknown transfers withheld: too many in one second.
            pub answers_limited: counter(answers);
        }
        /// Answers to that.
        pub answered: struct Answered {
            /// Partial acknowledgements.
            pub partial as "answered_partial": counter(messages);
            /// Complete acknowledgements.
            pub complete as "answered_complete": counter(messages);
            /// Aborts of a destination.
            pub aborts as "answered_abort": counter(aborts);
            /// Answers dropped: the transfer is not known, or over.
            pub unknown as "answered_unknown": counter(answers);
            /// Answers dropped: not from a destination, for other ports, or about what was never sent.
            pub forged as "answered_forged": counter(answers);
            /// Destinations that had forgotten their segments.
            pub forgotten as "answered_forgotten": counter(destinations);
        }
        /// Segments and questions that arrived.
        pub received: struct Received {
            /// Datagrams that are no PDU.
            pub malformed as "received_malformed": counter(datagrams);
            /// Segments.
            pub segments as "received_segments": counter(segments);
            /// Repairs.
            pub repairs as "received_repairs": counter(repairs);
            /// Segments that repairs gave.
            pub repaired as "received_repaired": counter(segments);
            /// Repairs dropped: redundant, or coding is off.
            pub repairs_useless as "received_repairs_useless": counter(repairs);
            /// Messages delivered.
            pub messages as "received_messages": counter(messages);
            /// Their octets.
            pub octets as "received_octets": counter(octets);
            /// Segments that had come before.
            pub again as "received_again": counter(segments);
            /// Segments of finished transfers.
            pub late as "received_late": counter(segments);
            /// Segments dropped: they contradict earlier segments.
            pub odd as "received_odd": counter(segments);
            /// Segments dropped: the transfer is not known.
            pub stray as "received_stray": counter(segments);
            /// Segments dropped: the message is too long.
            pub too_large as "received_too_large": counter(segments);
            /// Segments dropped: there is no room, and their own transfer would be the first to give way.
            pub full as "received_full": counter(segments);
            /// Transfers given up for others: there was no room for all.
            pub evicted as "received_evicted": counter(transfers);
            /// Acknowledgement requests.
            pub requests as "received_requests": counter(messages);
            /// Aborts of an originator.
            pub aborts as "received_aborts": counter(aborts);
            /// Transfers given up: no more segments came.
            pub given_up as "received_given_up": counter(transfers);
            /// Finished transfers forgotten before their time: there is no room.
            pub forgotten as "received_forgotten": counter(transfers);
        }
        /// What is there now.
        pub levels: struct Levels {
            /// Messages that wait to be sent.
            pub waiting: gauge(messages);
            /// Their octets.
            pub waiting_octets: gauge(octets);
            /// Transfers that are being sent.
            pub transfers: gauge(transfers);
            /// Octets that are under way.
            pub in_flight: gauge(octets);
            /// Octets that may be.
            pub room: gauge(octets);
            /// Transfers that are being received.
            pub reassemblies: gauge(transfers);
            /// Their octets.
            pub reassembly_octets: gauge(octets);
            /// Finished transfers that are known.
            pub remembered: gauge(transfers);
            /// Destinations that are known.
            pub peers: gauge(destinations);
            /// Answers that wait to be sent.
            pub answers as "answers_waiting": gauge(answers);
        }
    }
}

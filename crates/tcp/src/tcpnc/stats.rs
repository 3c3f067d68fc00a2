//! Counters of the layer.

base::counters! {
    /// Counters of a layer.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Segments of TCP's that carried new octets and were taken for coding.
        pub segments: counter(segments);
        /// Segments of our TCP with octets sent before.
        pub segments_again: counter(segments);
        /// Segments of TCP's dropped because too many packets were held.
        pub full: counter(segments);
        /// Combinations sent, all kinds.
        pub combinations_sent: counter(combinations);
        /// Combinations sent after a coding window, for redundancy.
        pub redundant_sent: counter(combinations);
        /// Combinations sent because TCP sent again.
        pub resent: counter(combinations);
        /// Retransmissions of TCP's at which packets known to be missing were resent together.
        pub repairs: counter(packets);
        /// Coding windows closed early.
        pub flushes: counter(times);
        /// Combinations received, all kinds.
        pub combinations_received: counter(combinations);
        /// Combinations received that told nothing new.
        pub dependent: counter(combinations);
        /// Combinations received outside the range that the decoder can hold.
        pub refused: counter(combinations);
        /// Packets decoded and given to TCP.
        pub delivered: counter(packets);
        /// Packets decoded that have no length a packet can have.
        pub undecodable: counter(packets);
        /// Acknowledgements sent.
        pub acks_sent: counter(messages);
        /// Acknowledgements received.
        pub acks_received: counter(messages);
        /// Acknowledgements received of data never sent, or with impossible runs.
        pub bad_acks: counter(messages);
        /// Acknowledgements received that others overtook.
        pub stale_acks: counter(messages);
        /// TCP's own acknowledgements that went no further.
        pub acks_swallowed: counter(messages);
    }
}

//! Counters of TLS sessions.

use super::failure::Failure;

base::counters! {
    /// Counters of a service's sessions.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Sessions that began, on either side.
        pub begun: counter(sessions);
        /// Sessions whose handshake was completed.
        pub established: counter(sessions);
        /// Sessions that were cut off: TCP ended without `close_notify`.
        pub cut: counter(sessions);
        /// Sessions that failed for a certificate.
        pub certificates: struct CertificateFailures {
            /// Malformed, with a wrong signature, or an authority's own.
            pub certificate_bad: counter(sessions);
            /// Too old.
            pub certificate_expired: counter(sessions);
            /// Not shown.
            pub certificate_missing: counter(sessions);
            /// Not valid yet.
            pub certificate_not_yet_valid: counter(sessions);
            /// Of a client that no auth rule names.
            pub certificate_unmatched: counter(sessions);
            /// Issued by no trust anchor.
            pub certificate_unknown_ca: counter(sessions);
            /// Of another server.
            pub certificate_wrong_name: counter(sessions);
            /// For another use.
            pub certificate_wrong_use: counter(sessions);
        }
        /// Sessions that failed for another reason.
        pub handshakes: struct HandshakeFailures {
            /// The server speaks another protocol than the client was given.
            pub alpn_mismatch: counter(sessions);
            /// The client offers no protocol that is allowed.
            pub alpn_refused: counter(sessions);
            /// TCP ended during the handshake.
            pub ended_early: counter(handshakes);
            /// The far gateway's server name or protocol cannot be one.
            pub invalid_name: counter(sessions);
            /// No TLS at all.
            pub not_tls: counter(sessions);
            /// A message was too long.
            pub oversized: counter(messages);
            /// The other side refused.
            pub peer_refused: counter(sessions);
            /// The handshake took too long.
            pub timed_out: counter(handshakes);
            /// The Auth ID has no target.
            pub unknown_auth_id: counter(sessions);
            /// The client asked for a name that the certificate does not have.
            pub unknown_name: counter(sessions);
            /// Nothing in common.
            pub unsupported: counter(sessions);
            /// The other side broke the protocol.
            pub violation: counter(sessions);
        }
    }
}

impl Stats {
    /// Counts a failure.
    pub fn count(&mut self, failure: Failure) {
        let Self { certificates, handshakes, .. } = self;
        let counter = match failure {
            Failure::AlpnMismatch => &mut handshakes.alpn_mismatch,
            Failure::AlpnRefused => &mut handshakes.alpn_refused,
            Failure::BadCertificate => &mut certificates.certificate_bad,
            Failure::Cut => &mut self.cut,
            Failure::EndedEarly => &mut handshakes.ended_early,
            Failure::Expired => &mut certificates.certificate_expired,
            Failure::InvalidName => &mut handshakes.invalid_name,
            Failure::NoClientCertificate => &mut certificates.certificate_missing,
            Failure::NotTls => &mut handshakes.not_tls,
            Failure::NotYetValid => &mut certificates.certificate_not_yet_valid,
            Failure::Oversized => &mut handshakes.oversized,
            Failure::PeerRefused(_) => &mut handshakes.peer_refused,
            Failure::TimedOut => &mut handshakes.timed_out,
            Failure::UnknownAuthId => &mut handshakes.unknown_auth_id,
            Failure::UnknownCa => &mut certificates.certificate_unknown_ca,
            Failure::UnknownName => &mut handshakes.unknown_name,
            Failure::UnmatchedClient => &mut certificates.certificate_unmatched,
            Failure::Unsupported => &mut handshakes.unsupported,
            Failure::Violation => &mut handshakes.violation,
            Failure::WrongName => &mut certificates.certificate_wrong_name,
            Failure::WrongUse => &mut certificates.certificate_wrong_use,
        };
        *counter += 1;
    }
}

//! Counters of TLS sessions.

use serde::Serialize;

use super::failure::Failure;

/// Counters of a service's sessions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Sessions that began, on either side.
    pub begun: u64,
    /// Sessions whose handshake was completed.
    pub established: u64,
    /// Sessions that were cut off: TCP ended without `close_notify`.
    pub cut: u64,
    /// Sessions that failed for a certificate.
    #[serde(flatten)]
    pub certificates: CertificateFailures,
    /// Sessions that failed for another reason.
    #[serde(flatten)]
    pub handshakes: HandshakeFailures,
}

/// Sessions that failed for a certificate of the other side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct CertificateFailures {
    /// Malformed, with a wrong signature, or an authority's own.
    pub certificate_bad: u64,
    /// Too old.
    pub certificate_expired: u64,
    /// Not shown.
    pub certificate_missing: u64,
    /// Not valid yet.
    pub certificate_not_yet_valid: u64,
    /// Of a client that no auth rule names.
    pub certificate_unmatched: u64,
    /// Issued by no trust anchor.
    pub certificate_unknown_ca: u64,
    /// Of another server.
    pub certificate_wrong_name: u64,
    /// For another use.
    pub certificate_wrong_use: u64,
}

/// Sessions that failed for something else than a certificate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct HandshakeFailures {
    /// The server speaks another protocol than the client was given.
    pub alpn_mismatch: u64,
    /// The client offers no protocol that is allowed.
    pub alpn_refused: u64,
    /// TCP ended during the handshake.
    pub ended_early: u64,
    /// The far gateway's server name or protocol cannot be one.
    pub invalid_name: u64,
    /// No TLS at all.
    pub not_tls: u64,
    /// A message was too long.
    pub oversized: u64,
    /// The other side refused.
    pub peer_refused: u64,
    /// The handshake took too long.
    pub timed_out: u64,
    /// The Auth ID has no target.
    pub unknown_auth_id: u64,
    /// The client asked for a name that the certificate does not have.
    pub unknown_name: u64,
    /// Nothing in common.
    pub unsupported: u64,
    /// The other side broke the protocol.
    pub violation: u64,
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

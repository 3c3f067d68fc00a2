//! Reasons for failed TLS sessions.

use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error, PeerMisbehaved};

/// How long a handshake may take, with a client or a target.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Octets of a hello at most; a browser's hello has some 2,000.
pub const MAX_HELLO: usize = 16 << 10;

/// Why a session could not be made, or broke. A failure names nobody, so it can be logged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The server chose another ALPN protocol than the one the local client already has.
    #[error("the server does not speak the application protocol (ALPN) that the client was given")]
    AlpnMismatch,
    /// The client offers protocols, and the profile allows none of them.
    #[error("the profile allows none of the application protocols (ALPN) that the client offers")]
    AlpnRefused,
    /// A certificate is malformed, its signature is wrong, or it is an authority's own.
    #[error("a certificate of the other side is malformed, wrongly signed, or an authority's own")]
    BadCertificate,
    /// TCP ended without a `close_notify`: what is missing nobody knows.
    #[error("the connection ended without close_notify, so data may be missing")]
    Cut,
    /// TCP ended during the handshake.
    #[error("the connection ended during the handshake")]
    EndedEarly,
    /// A certificate is too old.
    #[error("a certificate of the other side has expired")]
    Expired,
    /// The far gateway sent a server name or protocol that cannot be one.
    #[error("the far gateway sent a server name or application protocol that cannot be one")]
    InvalidName,
    /// The client shows no certificate, and the profile demands one.
    #[error("the client shows no certificate, which the profile demands")]
    NoClientCertificate,
    /// The client does not speak TLS.
    #[error("what the client sent is not TLS")]
    NotTls,
    /// A certificate is not valid yet.
    #[error("a certificate of the other side is not valid yet")]
    NotYetValid,
    /// A record is longer than TLS allows, or the hello of a client is longer than we allow.
    #[error(
        "a message of the other side is too long: a client's hello may have {MAX_HELLO} octets"
    )]
    Oversized,
    /// The other side ended the session with this alert.
    #[error("the other side refused with the alert {}", alert(*.0))]
    PeerRefused(AlertDescription),
    /// The handshake did not end within [`HANDSHAKE`].
    #[error("the handshake took longer than {} s", HANDSHAKE.as_secs())]
    TimedOut,
    /// The far gateway names an Auth ID that has no target here.
    #[error("the Auth ID of the far gateway has no target in the profile")]
    UnknownAuthId,
    /// No trust anchor vouches for a certificate.
    #[error("a certificate of the other side is issued by none of the trust anchors")]
    UnknownCa,
    /// The client asks for a server that the profile's certificate does not name.
    #[error("the client asks for a server name (SNI) that the profile's certificate does not have")]
    UnknownName,
    /// The certificate of the client is good, and matches no rule.
    #[error("the certificate of the client matches no auth rule of the profile")]
    UnmatchedClient,
    /// No version or cipher suite in common.
    #[error("the two sides have no TLS version or cipher suite in common")]
    Unsupported,
    /// The other side breaks the protocol.
    #[error("the other side breaks the TLS protocol")]
    Violation,
    /// The certificate of the server does not name the server.
    #[error("the certificate of the server is for another name")]
    WrongName,
    /// A certificate is for another use: a client's shown by a server, or the other way round.
    #[error("a certificate of the other side is not meant for this use")]
    WrongUse,
}

/// An alert in words, as RFC 8446, 6 has them: `certificate required`.
fn alert(alert: AlertDescription) -> String {
    let name = alert.as_str().map_or_else(|| u8::from(alert).to_string(), str::to_owned);
    let mut words = String::new();
    let mut letters = name.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        let is_first = letter.is_uppercase() && before.is_lowercase();
        if is_first {
            words.push(' ');
        }
        let is_word = letters.peek().is_none_or(|next| next.is_lowercase());
        words.extend(if is_word { letter.to_lowercase().collect() } else { vec![letter] });
        before = letter;
    }
    words
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Self::NoClientCertificate,
            Error::InvalidCertificate(why) => of_certificate(why),
            Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => {
                Self::AlpnMismatch
            }
            Error::AlertReceived(alert) => Self::PeerRefused(*alert),
            Error::PeerIncompatible(_) => Self::Unsupported,
            Error::PeerSentOversizedRecord => Self::Oversized,
            // The library may add to its errors; the remaining errors of today mean a broken
            // message.
            _ => Self::Violation,
        }
    }
}

fn of_certificate(why: &CertificateError) -> Failure {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Failure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Failure::NotYetValid
        }
        CertificateError::UnknownIssuer => Failure::UnknownCa,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Failure::WrongName
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Failure::WrongUse
        }
        // Only our own verifier says this.
        CertificateError::ApplicationVerificationFailure => Failure::UnmatchedClient,
        _ => Failure::BadCertificate,
    }
}

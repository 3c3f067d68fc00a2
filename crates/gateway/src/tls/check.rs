//! Checks whether a certificate chain will be accepted, and explains why not.

use std::path::Path;
use std::sync::Arc;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::authority::Usage;
use super::failure::Failure;
use super::files::{self, BadFile, Unusable, day};
use super::names;

/// The result of checking a chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Whom it is for.
    pub names: Vec<String>,
    /// Who issued the first certificate.
    pub issuer: String,
    /// The day on which the first certificate of the chain ends.
    pub until: String,
    /// Why the chain will be refused, if so.
    pub failure: Option<Failure>,
    /// All this as a sentence.
    pub sentence: String,
}

/// Checks a chain as the other side of a session would, now.
///
/// # Errors
/// When a file cannot be read.
pub fn check(
    anchors: &Path,
    chain: &Path,
    name: Option<&str>,
    usage: Usage,
) -> Result<Verdict, BadFile> {
    let (anchors, file) = (files::trust_anchors(anchors)?, chain);
    let chain = files::chain(file)?;
    let mut parsed = Vec::new();
    for certificate in &chain {
        let number = parsed.len() + 1;
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
            return Err(BadFile { file: file.to_owned(), why: Unusable::Malformed { number } });
        };
        parsed.push(certificate);
    }
    let ends = parsed.iter().map(|it| it.validity().not_after).min_by_key(|it| it.timestamp());
    let starts = parsed.iter().map(|it| it.validity().not_before).max_by_key(|it| it.timestamp());
    let (until, from) = (ends.map(day).unwrap_or_default(), starts.map(day).unwrap_or_default());
    let issuer = parsed.first().map(|it| it.issuer().to_string()).unwrap_or_default();
    let names: Vec<String> = names::of(&chain[0]).iter().map(ToString::to_string).collect();
    let failure = verify(anchors, &chain, name, usage).err();

    let listed = names.join(", ");
    let (wanted, other) = match usage {
        Usage::Client => ("client", "server"),
        Usage::Server => ("server", "client"),
    };
    let sentence = match failure {
        None => format!("a {wanted}'s certificate for {listed}, by {issuer}, good until {until}"),
        Some(Failure::Expired) => format!("expired on {until}"),
        Some(Failure::NotYetValid) => format!("not valid before {from}"),
        Some(Failure::UnknownCa) => {
            format!("issued by {issuer}, and nothing leads from there to a trust anchor")
        }
        Some(Failure::WrongName) => {
            format!("for {listed}, and not for {}", name.unwrap_or_default())
        }
        Some(Failure::WrongUse) => format!("not meant for a {wanted}, perhaps for a {other}"),
        Some(Failure::BadCertificate) if parsed.first().is_some_and(|it| it.is_ca()) => {
            format!("an authority's own certificate (CA:TRUE), which no {wanted} can show")
        }
        Some(failure) => failure.to_string(),
    };
    Ok(Verdict { names, issuer, until, failure, sentence })
}

fn verify(
    anchors: Arc<RootCertStore>,
    chain: &[CertificateDer<'_>],
    name: Option<&str>,
    usage: Usage,
) -> Result<(), Failure> {
    let failure = |why: Error| Failure::from(&why);
    let (now, first, rest) = (UnixTime::now(), &chain[0], &chain[1..]);
    let provider = ring::default_provider();
    let certificate = ParsedCertificate::try_from(first).map_err(failure)?;
    match usage {
        Usage::Client => {
            let verifier = WebPkiClientVerifier::builder_with_provider(anchors, provider.into());
            let verifier = verifier.build().expect("a file of trust anchors has one");
            verifier.verify_client_cert(first, rest, now).map_err(failure)?;
        }
        Usage::Server => {
            let algorithms = provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &anchors,
                rest,
                now,
                algorithms,
            )
            .map_err(failure)?;
        }
    }
    let Some(name) = name else { return Ok(()) };
    let is_email = name.contains('@');
    if is_email {
        let pattern = name.parse::<names::Pattern>().map_err(|_| Failure::WrongName)?;
        let is_it = names::of(first).iter().any(|san| pattern.matches(san));
        return if is_it { Ok(()) } else { Err(Failure::WrongName) };
    }
    let name = ServerName::try_from(name).map_err(|_| Failure::WrongName)?;
    verify_server_name(&certificate, &name).map_err(failure)
}

//! Certificates, keys and trust anchors in PEM files, checked before anybody relies on them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;
use zeroize::Zeroizing;

use super::names;
use crate::files;
use crate::keys::{self, KeyFile};

/// A file of certificates has so many octets at most: the authorities of the whole web are 220 kB.
const MAX_OCTETS: u64 = 1 << 20;
/// Certificates of a chain at most.
const MAX_CHAIN: usize = 8;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// No certificate is in it.
    #[error("there is no certificate in it (PEM: -----BEGIN CERTIFICATE-----)")]
    Empty,
    /// A certificate's time is over.
    #[error("certificate {number} expired on {since}: a new one is needed")]
    Expired {
        /// Which of the file, from 1.
        number: usize,
        /// The day.
        since: String,
    },
    /// The key belongs to another certificate.
    #[error("the key does not fit the certificate")]
    KeyMismatch,
    /// The content of a certificate cannot be parsed.
    #[error("certificate {number} is malformed")]
    Malformed {
        /// Which of the file, from 1.
        number: usize,
    },
    /// No private key is in it.
    #[error(
        "there is no private key in it that can be used (PEM; ECDSA P-256 or P-384, Ed25519, RSA)"
    )]
    NoKey,
    /// The certificate is for nobody.
    #[error("the certificate names nobody: it needs a subject alternative name")]
    NoNames,
    /// A certificate's time has not come.
    #[error("certificate {number} is not valid before {until}: is the clock right?")]
    NotYetValid {
        /// Which of the file, from 1.
        number: usize,
        /// The day.
        until: String,
    },
    /// Others may read the key, or the file cannot be read.
    #[error("{0}")]
    Secret(#[from] KeyFile),
    /// The file has too many certificates or octets.
    #[error("more than {MAX_CHAIN} certificates, or longer than {MAX_OCTETS} octets")]
    TooLong,
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

impl Unusable {
    /// Whether the file is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Secret(why) => why.is_missing(),
            Self::Unreadable(why) => why.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct BadFile {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub why: Unusable,
}

/// A certificate chain and the key of its first certificate.
#[derive(Clone)]
pub struct Credentials(Arc<CertifiedKey>);

impl Credentials {
    /// Reads a chain and its key, which have to be valid now.
    ///
    /// # Errors
    /// When one of the files cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, BadFile> {
        let chain = self::chain(certificate)?;
        check_chain(&chain, UnixTime::now()).map_err(|why| bad(certificate, why))?;
        let private_key = private_key(key).map_err(|why| bad(key, why))?;
        let certified = CertifiedKey::from_der(chain, private_key, &ring::default_provider());
        let certified = certified.map_err(|why| {
            bad(
                key,
                match why {
                    rustls::Error::InconsistentKeys(_) => Unusable::KeyMismatch,
                    _ => Unusable::NoKey,
                },
            )
        })?;
        Ok(Self(Arc::new(certified)))
    }

    /// Whether the certificate is for a host of this name.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let Ok(name) = DnsName::try_from(host) else { return false };
        let certificate = self.0.end_entity_cert().and_then(ParsedCertificate::try_from);
        certificate.is_ok_and(|it| verify_server_name(&it, &ServerName::DnsName(name)).is_ok())
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }
}

/// The key is left out.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The certificate chain of a file, the owner's certificate first.
///
/// # Errors
/// When the file has no certificates, or too many, or cannot be read.
pub fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadFile> {
    let chain = certificates(path).map_err(|why| bad(path, why))?;
    if chain.len() > MAX_CHAIN { Err(bad(path, Unusable::TooLong)) } else { Ok(chain) }
}

/// The authorities in a file, one at least; their own dates are not looked at.
///
/// # Errors
/// When there are none, or one cannot be an authority.
pub fn trust_anchors(path: &Path) -> Result<Arc<RootCertStore>, BadFile> {
    let mut anchors = RootCertStore::empty();
    for (at, certificate) in
        certificates(path).map_err(|why| bad(path, why))?.into_iter().enumerate()
    {
        let malformed = |_| bad(path, Unusable::Malformed { number: at + 1 });
        anchors.add(certificate).map_err(malformed)?;
    }
    Ok(Arc::new(anchors))
}

fn bad(file: &Path, why: Unusable) -> BadFile {
    BadFile { file: file.to_owned(), why }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let text = read(files::open(path)?)?;
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let number = found.len() + 1;
        found.push(certificate.map_err(|_| Unusable::Malformed { number })?);
    }
    if found.is_empty() { Err(Unusable::Empty) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Unusable> {
    let text = Zeroizing::new(read(keys::open(path)?)?);
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| Unusable::NoKey)
}

fn read(mut file: File) -> Result<Vec<u8>, Unusable> {
    let len = file.metadata()?.len();
    if len > MAX_OCTETS {
        return Err(Unusable::TooLong);
    }
    // One piece of memory: what grows leaves copies behind.
    let mut text = Vec::with_capacity(usize::try_from(len).unwrap_or(0) + 1);
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Whether all of a chain is valid now, and says whom it is for.
fn check_chain(chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Unusable> {
    for (at, certificate) in chain.iter().enumerate() {
        let number = at + 1;
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return Err(Unusable::Malformed { number });
        };
        let (from, to) = (parsed.validity().not_before, parsed.validity().not_after);
        if is_before(to, now) {
            return Err(Unusable::Expired { number, since: day(to) });
        }
        if !is_before(from, now) {
            return Err(Unusable::NotYetValid { number, until: day(from) });
        }
    }
    match chain.first() {
        Some(first) if !names::of(first).is_empty() => Ok(()),
        _ => Err(Unusable::NoNames),
    }
}

fn is_before(time: ASN1Time, now: UnixTime) -> bool {
    time.timestamp() <= i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Formats the date of a time, for example 2026-11-22.
pub(crate) fn day(time: ASN1Time) -> String {
    time.to_datetime().date().to_string()
}

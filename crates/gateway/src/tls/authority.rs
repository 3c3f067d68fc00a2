//! A certificate authority for tests and closed networks.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::names;

/// Clocks of others may be so much behind ours.
const TOLERANCE: Duration = Duration::from_secs(3_600);

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key, a secret.
    pub key: String,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Usage {
    /// Clients of two-way sessions.
    Client,
    /// Servers.
    Server,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Validity {
    /// From when on.
    pub from: UnixTime,
    /// Until when.
    pub to: UnixTime,
}

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NotIssued {
    /// The authority's certificate is none.
    #[error("ca.crt is no certificate of an authority: {0}")]
    AuthorityCertificate(rcgen::Error),
    /// The authority's key is none.
    #[error("ca.key is no key: {0}")]
    AuthorityKey(rcgen::Error),
    /// The authority's files do not belong together.
    #[error("ca.key is not the key of ca.crt")]
    AuthorityMismatch,
    /// A name cannot stand in a certificate.
    #[error("{0:?} cannot stand in a certificate: a domain, an email or an address can")]
    Name(String),
    /// It could not be signed.
    #[error("it cannot be signed: {0}")]
    Signature(rcgen::Error),
}

/// An authority that issues certificates.
pub struct Authority(Issuer<'static, KeyPair>);

impl Validity {
    /// For so long from now on, and a little before.
    #[must_use]
    pub fn of_days(days: u32) -> Self {
        let now = UnixTime::now().as_secs();
        let to = now + u64::from(days) * 86_400;
        Self {
            from: UnixTime::since_unix_epoch(Duration::from_secs(now) - TOLERANCE),
            to: UnixTime::since_unix_epoch(Duration::from_secs(to)),
        }
    }

    /// From one time until another; both since 1970.
    #[must_use]
    pub fn between(from: SystemTime, to: SystemTime) -> Self {
        let unix = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [from, to] = [from, to].map(|time| UnixTime::since_unix_epoch(unix(time)));
        Self { from, to }
    }
}

impl Authority {
    /// Makes a certificate authority with this name.
    ///
    /// # Errors
    /// When the name cannot stand in a certificate.
    pub fn make(name: &str, validity: Validity) -> Result<Issued, NotIssued> {
        let mut params = params(name, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(NotIssued::Signature)?;
        let certificate = params.self_signed(&key).map_err(NotIssued::Signature)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// The authority that was made before.
    ///
    /// # Errors
    /// When it is none, or the key is another's.
    pub fn open(authority: &Issued) -> Result<Self, NotIssued> {
        let key = KeyPair::from_pem(&authority.key).map_err(NotIssued::AuthorityKey)?;
        let public = key.subject_public_key_info();
        let issuer = Issuer::from_ca_cert_pem(&authority.certificate, key)
            .map_err(NotIssued::AuthorityCertificate)?;
        let certificate = CertificateDer::from_pem_slice(authority.certificate.as_bytes());
        let certified = certificate.ok().and_then(|it| names::public_key(&it));
        if certified != Some(public) {
            return Err(NotIssued::AuthorityMismatch);
        }
        Ok(Self(issuer))
    }

    /// Issues a certificate for these names.
    ///
    /// # Errors
    /// When there is no name, or one cannot stand in a certificate.
    pub fn issue(
        &self,
        names: &[String],
        usage: Usage,
        validity: Validity,
    ) -> Result<Issued, NotIssued> {
        let first = names.first().ok_or_else(|| NotIssued::Name(String::new()))?;
        let mut params = params(first, validity);
        params.subject_alt_names = names.iter().map(|name| san(name)).collect::<Result<_, _>>()?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match usage {
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        let key = KeyPair::generate().map_err(NotIssued::Signature)?;
        let certificate = params.signed_by(&key, &self.0).map_err(NotIssued::Signature)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The key is left out.
impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The key is left out.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(name: &str, validity: Validity) -> CertificateParams {
    let time = |time: UnixTime| date_time_ymd(1970, 1, 1) + Duration::from_secs(time.as_secs());
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = time(validity.from);
    params.not_after = time(validity.to);
    params
}

fn san(name: &str) -> Result<SanType, NotIssued> {
    let refused = || NotIssued::Name(name.to_owned());
    if let Ok(address) = name.parse() {
        return Ok(SanType::IpAddress(address));
    }
    let text = || name.to_owned().try_into().map_err(|_| refused());
    let small = name.to_ascii_lowercase();
    match small.split_once('@') {
        Some((mailbox, domain)) if !mailbox.is_empty() && names::is_domain(domain) => {
            Ok(SanType::Rfc822Name(text()?))
        }
        None if names::is_domain(small.strip_prefix("*.").unwrap_or(&small)) => {
            Ok(SanType::DnsName(text()?))
        }
        _ => Err(refused()),
    }
}

//! The server that a local client meets at the initiating gateway.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use rustls::sign::SingleCertAndKey;

use super::files::{self, BadFile, Credentials};
use super::names::{self, AuthId, AuthRule};
use super::profile::{CredentialFiles, ServerProfile, TwoWay, Version};
use super::verifier::Verifier;

/// A server profile whose files are loaded.
pub struct Server {
    config: ServerConfig,
    credentials: Credentials,
    alpn: Vec<String>,
    /// Empty where clients show no certificate.
    auth: Vec<AuthRule>,
}

impl Server {
    /// Loads and checks the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn load(profile: &ServerProfile) -> Result<Self, BadFile> {
        let provider = Arc::new(ring::default_provider());
        let CredentialFiles { certificate, key } = &profile.credentials;
        let credentials = Credentials::read(certificate, key)?;
        let (verifier, auth): (Arc<dyn ClientCertVerifier>, _) = match &profile.two_way {
            None => (Arc::new(NoClientAuth), Vec::new()),
            Some(TwoWay { trust_anchors: file, auth }) => {
                let anchors = files::trust_anchors(file)?;
                let verifier = Verifier::new(anchors, auth.clone(), Arc::clone(&provider))
                    .expect("a file of trust anchors has one");
                (Arc::new(verifier), auth.clone())
            }
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&Version::supported(&profile.versions))
            .expect("the provider has all versions, and a profile has one")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(credentials.certified())));
        // Each session is verified anew, by what is loaded when it begins.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config, credentials, alpn: profile.alpn.clone(), auth })
    }

    /// Whether clients have to show a certificate.
    #[must_use]
    pub fn is_two_way(&self) -> bool {
        !self.auth.is_empty()
    }

    /// Whether the certificate is for this host.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        self.credentials.is_for(host)
    }

    /// Whether ALPN is spoken at all.
    pub(crate) fn has_alpn(&self) -> bool {
        !self.alpn.is_empty()
    }

    pub(crate) fn allows(&self, protocol: &[u8]) -> bool {
        self.alpn.iter().any(|allowed| allowed.as_bytes() == protocol)
    }

    pub(crate) fn auth_id(&self, certificate: &CertificateDer<'_>) -> Option<&AuthId> {
        names::auth_id(&self.auth, certificate)
    }

    /// What a session with this application protocol is made from.
    pub(crate) fn config(&self, alpn: Option<&[u8]>) -> Arc<ServerConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = alpn.map(<[u8]>::to_vec).into_iter().collect();
        Arc::new(config)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alpn, auth, .. } = self;
        f.debug_struct("Server").field("alpn", alpn).field("auth", auth).finish_non_exhaustive()
    }
}

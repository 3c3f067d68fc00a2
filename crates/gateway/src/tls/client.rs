//! The client that the real server meets at the responding gateway.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{DnsName, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use super::failure::Failure;
use super::files::{self, BadFile, Credentials};
use super::names::AuthId;
use super::profile::{ClientProfile, Destination, TargetProfile, Version};
use super::session::Session;

/// A client profile whose files are loaded.
pub struct Client {
    config: ClientConfig,
    targets: Vec<Target>,
}

/// A server that is called by Auth ID.
pub struct Target {
    id: AuthId,
    to: Destination,
    server_name: ServerName<'static>,
    config: ClientConfig,
}

impl Client {
    /// Loads and checks the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn load(profile: &ClientProfile) -> Result<Self, BadFile> {
        let anchors = files::trust_anchors(&profile.trust_anchors)?;
        let load = |target: &TargetProfile| Target::load(target, &anchors, &profile.versions);
        let targets = profile.targets.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { config: config(anchors, None, &profile.versions), targets })
    }

    /// The session with a server whose certificate is for `sni`, or without one, for its address.
    ///
    /// # Errors
    /// When the far gateway's `sni` is no host name, or `alpn` no protocol.
    pub fn connect(
        &self,
        sni: Option<&str>,
        destination: IpAddr,
        alpn: Option<&[u8]>,
    ) -> Result<Session, Failure> {
        let name = match sni {
            Some(sni) => {
                let name = DnsName::try_from(sni.to_owned()).map_err(|_| Failure::InvalidName)?;
                ServerName::DnsName(name)
            }
            None => ServerName::IpAddress(destination.into()),
        };
        Session::connect(&self.config, name, alpn)
    }

    /// The server of an Auth ID.
    ///
    /// # Errors
    /// When there is none.
    pub fn target(&self, id: &str) -> Result<&Target, Failure> {
        let target = self.targets.iter().find(|target| target.id.as_str() == id);
        target.ok_or(Failure::UnknownAuthId)
    }
}

impl Target {
    fn load(
        profile: &TargetProfile,
        anchors: &Arc<RootCertStore>,
        versions: &[Version],
    ) -> Result<Self, BadFile> {
        let own = match &profile.trust_anchors {
            Some(file) => files::trust_anchors(file)?,
            None => Arc::clone(anchors),
        };
        let credentials = profile.credentials.as_ref();
        let credentials =
            credentials.map(|it| Credentials::read(&it.certificate, &it.key)).transpose()?;
        Ok(Self {
            id: profile.id.clone(),
            to: profile.to.clone(),
            server_name: profile.server_name.clone(),
            config: config(own, credentials.as_ref(), versions),
        })
    }

    /// Where the server is.
    #[must_use]
    pub fn destination(&self) -> &Destination {
        &self.to
    }

    /// The session with it.
    ///
    /// # Errors
    /// When `alpn` is no protocol.
    pub fn connect(&self, alpn: Option<&[u8]>) -> Result<Session, Failure> {
        Session::connect(&self.config, self.server_name.clone(), alpn)
    }
}

fn config(
    anchors: Arc<RootCertStore>,
    credentials: Option<&Credentials>,
    versions: &[Version],
) -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(anchors, Arc::clone(&provider))
        .build()
        .expect("a file of trust anchors has one");
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&Version::supported(versions))
        .expect("the provider has all versions, and a profile has one")
        .with_webpki_verifier(verifier);
    let mut config = match credentials {
        None => builder.with_no_client_auth(),
        Some(credentials) => {
            let certified = SingleCertAndKey::from(credentials.certified());
            builder.with_client_cert_resolver(Arc::new(certified))
        }
    };
    // Each server is verified anew, by what is loaded when its session begins.
    config.resumption = Resumption::disabled();
    config
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, to, server_name, .. } = self;
        f.debug_struct("Target")
            .field("id", id)
            .field("to", to)
            .field("server_name", server_name)
            .finish_non_exhaustive()
    }
}

//! TLS settings of a configuration: roles, files and names.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use rustls::SupportedProtocolVersion;
use rustls::pki_types::ServerName;

use super::names::{self, AuthId, AuthRule};
use crate::ends::Ends;

/// A way to terminate TLS, called by its name in rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name.
    pub name: String,
    /// The role of the gateway in TLS, with its files and names.
    pub role: Role,
}

/// The role of the gateway in TLS: server or client.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Towards the real server, at the responding gateway.
    Client(ClientProfile),
    /// Towards the local client, at the initiating gateway.
    Server(ServerProfile),
}

/// Files and names of the gateway as a TLS server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerProfile {
    /// What we show the client.
    pub credentials: CredentialFiles,
    /// Which clients we take; `None` for all, without certificates.
    pub two_way: Option<TwoWay>,
    /// Application protocols that a client may choose from; none for no ALPN.
    pub alpn: Vec<String>,
    /// Versions of TLS.
    pub versions: Vec<Version>,
}

/// Which clients a server takes.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoWay {
    /// Authorities of the clients.
    pub trust_anchors: PathBuf,
    /// Their Auth IDs; the first match counts.
    pub auth: Vec<AuthRule>,
}

/// Files and names of the gateway as a TLS client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientProfile {
    /// Certificate authorities of servers called by SNI or address.
    pub trust_anchors: PathBuf,
    /// Servers that are called by Auth ID.
    pub targets: Vec<TargetProfile>,
    /// Versions of TLS.
    pub versions: Vec<Version>,
}

/// A server that is called by Auth ID.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetProfile {
    /// The Auth ID.
    pub id: AuthId,
    /// Where the server is.
    pub to: Destination,
    /// Whom the server's certificate is for.
    pub server_name: ServerName<'static>,
    /// Certificate authorities of the server; `None` for the profile's authorities.
    pub trust_anchors: Option<PathBuf>,
    /// The certificate chain and key we show the server, if asked.
    pub credentials: Option<CredentialFiles>,
    /// Ends that may connect to the server; none for the peers of the configuration.
    pub users: Ends,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialFiles {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Where a server is: an address, or a name that is looked up, and a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// An address and port.
    Address(SocketAddr),
    /// A host and port.
    Host(String, u16),
}

/// Why a text is no [`Destination`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an address or host name and a port, such as 10.9.0.1:8089 or tak.example:8089")]
pub struct NoDestination;

impl FromStr for Destination {
    type Err = NoDestination;

    fn from_str(text: &str) -> Result<Self, NoDestination> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let is_somewhere = address.port() != 0 && !address.ip().is_unspecified();
            return if is_somewhere { Ok(Self::Address(address)) } else { Err(NoDestination) };
        }
        let (host, port) = text.rsplit_once(':').ok_or(NoDestination)?;
        let host = host.to_ascii_lowercase();
        match port.parse() {
            Ok(port) if port != 0 && names::is_domain(&host) => Ok(Self::Host(host, port)),
            _ => Err(NoDestination),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    pub(crate) fn supported(versions: &[Self]) -> Vec<&'static SupportedProtocolVersion> {
        let supported = |version: &Self| match version {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        };
        versions.iter().map(supported).collect()
    }
}

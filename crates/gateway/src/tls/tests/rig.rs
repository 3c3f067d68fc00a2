//! Authorities, certificates, and a peer to talk to.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

use super::super::authority::{Authority, Issued, Usage, Validity};
use super::super::files;
use super::super::names::AuthRule;
use super::super::*;
use crate::keys;

pub const BOTH: [Version; 2] = [Version::Tls12, Version::Tls13];
const DAY: u64 = 86_400;

/// A folder with the authorities `ours` and `theirs`, removed in the end.
pub struct Rig {
    folder: PathBuf,
}

impl Rig {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trackway-tls-{}-{number}", std::process::id());
        let rig = Self { folder: std::env::temp_dir().join(name) };
        fs::create_dir_all(&rig.folder).unwrap();
        for name in ["ours", "theirs"] {
            rig.write(name, &Authority::make(name, Validity::of_days(30)).unwrap());
        }
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file of trust anchors with this authority.
    pub fn anchors(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.crt"))
    }

    /// Files of a new certificate by the authority `by`, valid for 30 days.
    pub fn issue(&self, by: &str, usage: Usage, names: &[&str]) -> CredentialFiles {
        self.issue_for(by, usage, names, Validity::of_days(30))
    }

    pub fn issue_for(
        &self,
        by: &str,
        usage: Usage,
        names: &[&str],
        validity: Validity,
    ) -> CredentialFiles {
        let read = |end: &str| fs::read_to_string(self.path(&format!("{by}.{end}"))).unwrap();
        let authority =
            Authority::open(&Issued { certificate: read("crt"), key: read("key") }).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let issued = authority.issue(&names, usage, validity).unwrap();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        self.write(&format!("issued-{}", COUNT.fetch_add(1, Ordering::Relaxed)), &issued)
    }

    fn write(&self, name: &str, issued: &Issued) -> CredentialFiles {
        let [certificate, key] = ["crt", "key"].map(|end| self.path(&format!("{name}.{end}")));
        fs::write(&certificate, &issued.certificate).unwrap();
        keys::write_new(&key, &issued.key).unwrap();
        CredentialFiles { certificate, key }
    }

    /// What a server profile says that shows a certificate for `tak.example` and `*.web.example`.
    pub fn server_profile(&self) -> ServerProfile {
        ServerProfile {
            credentials: self.issue("ours", Usage::Server, &["tak.example", "*.web.example"]),
            two_way: None,
            alpn: Vec::new(),
            versions: BOTH.to_vec(),
        }
    }

    /// The same, for clients of `theirs` with these names and Auth IDs.
    pub fn two_way_profile(&self, rules: &[(&str, &str)]) -> ServerProfile {
        let rule = |(san, id): &(&str, &str)| AuthRule {
            san: san.parse().unwrap(),
            id: id.parse().unwrap(),
        };
        let auth = rules.iter().map(rule).collect();
        let two_way = Some(TwoWay { trust_anchors: self.anchors("theirs"), auth });
        ServerProfile { two_way, ..self.server_profile() }
    }

    /// What a client profile says that trusts `theirs`.
    pub fn client_profile(&self) -> ClientProfile {
        ClientProfile {
            trust_anchors: self.anchors("theirs"),
            targets: Vec::new(),
            versions: BOTH.to_vec(),
        }
    }

    /// A client of somebody else, who trusts `ours`.
    pub fn peer_client(&self, peer: &PeerClient<'_>) -> Connection {
        let anchors = files::trust_anchors(&self.anchors(peer.trusts)).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&Version::supported(&peer.versions))
            .unwrap();
        let builder = builder.with_root_certificates(anchors);
        let mut config = match peer.shows {
            None => builder.with_no_client_auth(),
            Some(files) => builder.with_client_cert_resolver(Arc::new(shown(files))),
        };
        config.alpn_protocols = peer.alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
        config.enable_sni = peer.has_sni;
        let name = ServerName::try_from(peer.name.to_owned()).unwrap();
        Connection::Client(ClientConnection::new(Arc::new(config), name).unwrap())
    }

    /// A server of somebody else, with a certificate by `theirs`.
    pub fn peer_server(&self, peer: &PeerServer<'_>) -> Connection {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&Version::supported(&peer.versions))
            .unwrap();
        let builder = if peer.asks {
            let anchors = files::trust_anchors(&self.anchors("ours")).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(anchors, provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_cert_resolver(Arc::new(shown(peer.shows)));
        config.alpn_protocols = peer.alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
        Connection::Server(ServerConnection::new(Arc::new(config)).unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A time that is over, and one that has not come.
pub fn wrong_times() -> [Validity; 2] {
    let now = UnixTime::now().as_secs();
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    [
        Validity { from: at(now - 9 * DAY), to: at(now - DAY) },
        Validity { from: at(now + DAY), to: at(now + 9 * DAY) },
    ]
}

/// A client of somebody else.
#[derive(Clone)]
pub struct PeerClient<'a> {
    pub name: &'a str,
    pub has_sni: bool,
    pub trusts: &'a str,
    pub shows: Option<&'a CredentialFiles>,
    pub alpn: &'a [&'a str],
    pub versions: Vec<Version>,
}

impl Default for PeerClient<'_> {
    fn default() -> Self {
        Self {
            name: "tak.example",
            has_sni: true,
            trusts: "ours",
            shows: None,
            alpn: &[],
            versions: BOTH.to_vec(),
        }
    }
}

/// A server of somebody else.
pub struct PeerServer<'a> {
    pub shows: &'a CredentialFiles,
    pub asks: bool,
    pub alpn: &'a [&'a str],
    pub versions: Vec<Version>,
}

impl<'a> PeerServer<'a> {
    pub fn new(shows: &'a CredentialFiles) -> Self {
        Self { shows, asks: false, alpn: &[], versions: BOTH.to_vec() }
    }
}

/// What a peer shows, even if a gateway would not: an expired certificate, for example.
fn shown(files: &CredentialFiles) -> SingleCertAndKey {
    let chain = files::chain(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    CertifiedKey::from_der(chain, key, &ring::default_provider()).unwrap().into()
}

/// How both ends see what happened.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub failure: Option<Failure>,
    pub peer: Option<Error>,
}

impl Seen {
    pub const GOOD: Self = Self { failure: None, peer: None };
}

/// Carries octets both ways until nobody has any.
pub fn talk(session: &mut Session, peer: &mut Connection) -> Seen {
    let mut seen = Seen::GOOD;
    loop {
        let mut to_session = Vec::new();
        while peer.wants_write() {
            peer.write_tls(&mut to_session).unwrap();
        }
        if !to_session.is_empty() {
            match session.receive(&to_session) {
                Ok(taken) => assert_eq!(taken, to_session.len()),
                Err(failure) => assert_eq!(seen.failure.replace(failure), None, "told twice"),
            }
        }
        let to_peer = transmitted(session);
        let mut rest = &to_peer[..];
        while !rest.is_empty() && seen.peer.is_none() {
            peer.read_tls(&mut rest).unwrap();
            seen.peer = peer.process_new_packets().err();
        }
        if to_peer.is_empty() && to_session.is_empty() {
            return seen;
        }
    }
}

/// What a session has to transmit.
pub fn transmitted(session: &mut Session) -> Vec<u8> {
    let mut octets = Vec::new();
    while session.wants_transmit() {
        session.transmit(&mut octets).unwrap();
    }
    octets
}

/// All plain octets, and what comes after them.
pub fn read_all(session: &mut Session) -> (Vec<u8>, Plain) {
    let (mut octets, mut buffer) = (Vec::new(), [0; 1_000]);
    loop {
        match session.read(&mut buffer) {
            Plain::Octets(count) => octets.extend_from_slice(&buffer[..count]),
            other => return (octets, other),
        }
    }
}

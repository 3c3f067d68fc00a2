//! Measures the memory of an idle TLS session. `cargo test -p trackway-gateway --test tls_memory -- --nocapture` prints
//! the result.

use std::alloc::System;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use gateway::keys;
use gateway::tls::authority::{Authority, Issued, Usage, Validity};
use gateway::tls::{
    CredentialFiles, Plain, Server, ServerProfile, Session, TwoWay, Version, files,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSIONS: u32 = 100;
/// Ten thousand sessions of this size are 313 MiB.
const MOST: f64 = 32_000.0;

#[test]
fn an_idle_session_is_small() {
    let folder = std::env::temp_dir().join(format!("trackway-tls-memory-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let ca = Authority::make("ca", Validity::of_days(1)).unwrap();
    let authority = Authority::open(&ca).unwrap();
    let issue = |name: &str, usage| {
        let issued = authority.issue(&[name.to_owned()], usage, Validity::of_days(1)).unwrap();
        write(&folder, name, &issued)
    };
    let anchors = write(&folder, "ca", &ca).certificate;
    let bob = issue("bob@unit.example", Usage::Client);
    let profile = ServerProfile {
        credentials: issue("tak.example", Usage::Server),
        two_way: Some(TwoWay {
            trust_anchors: anchors.clone(),
            auth: vec![gateway::tls::names::AuthRule {
                san: "*@unit.example".parse().unwrap(),
                id: "unit".parse().unwrap(),
            }],
        }),
        alpn: Vec::new(),
        versions: vec![Version::Tls12, Version::Tls13],
    };
    let server = Arc::new(Server::load(&profile).unwrap());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(files::trust_anchors(&anchors).unwrap())
            .with_client_auth_cert(
                files::chain(&bob.certificate).unwrap(),
                PrivateKeyDer::from_pem_file(&bob.key).unwrap(),
            )
            .unwrap();
        let client = Arc::new(client);
        // Memory that the first session leaves behind belongs to no session.
        drop(used(&server, &client));
        let mut sessions = Vec::with_capacity(SESSIONS as usize);

        let region = Region::new(ALLOCATOR);
        for _ in 0..SESSIONS {
            sessions.push(used(&server, &client));
        }
        let change = region.change();
        let held = change.bytes_allocated.saturating_sub(change.bytes_deallocated);

        let each = f64::from(u32::try_from(held).unwrap()) / f64::from(SESSIONS)
            + f64::from(u32::try_from(size_of::<Session>()).unwrap());
        println!("{:?}: {each:.0} octets a session", version.version);
        assert!(each < MOST, "{each}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// A session that was made, and carried 100 kB each way.
fn used(server: &Arc<Server>, client: &Arc<ClientConfig>) -> Session {
    let name = ServerName::try_from("tak.example").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let mut session = Session::accept(server);
    let mut buffer = [0; 10_000];
    exchange(&mut session, &mut client);
    assert!(session.terms().is_some());
    for _ in 0..10 {
        client.writer().write_all(&buffer).expect("memory takes it");
        exchange(&mut session, &mut client);
        while session.read(&mut buffer) != Plain::Nothing {}
        assert_eq!(session.write(&buffer), buffer.len());
        exchange(&mut session, &mut client);
        while client.reader().read(&mut buffer).is_ok() {}
    }
    session
}

fn exchange(session: &mut Session, client: &mut ClientConnection) {
    while client.wants_write() || session.wants_transmit() {
        let mut octets = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut octets).expect("memory takes it");
        }
        assert_eq!(session.receive(&octets), Ok(octets.len()));
        octets.clear();
        while session.wants_transmit() {
            session.transmit(&mut octets).expect("memory takes it");
        }
        let mut rest = &octets[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory takes it");
            client.process_new_packets().expect("memory takes it");
        }
    }
}

fn write(folder: &Path, name: &str, issued: &Issued) -> CredentialFiles {
    let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    fs::write(&certificate, &issued.certificate).expect("memory takes it");
    keys::write_new(&key, &issued.key).expect("memory takes it");
    CredentialFiles { certificate, key }
}

//! Sessions that are made.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::pki_types::ServerName;

use super::super::authority::Usage;
use super::super::*;
use crate::ends::Ends;

use super::rig::{BOTH, PeerClient, PeerServer, Rig, Seen, read_all, talk};

const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

#[test]
fn a_client_is_served_in_both_versions() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    for version in BOTH {
        let mut session = Session::accept(&server);
        let client =
            PeerClient { name: "a.web.example", versions: vec![version], ..PeerClient::default() };
        let mut client = rig.peer_client(&client);

        let seen = talk(&mut session, &mut client);
        client.writer().write_all(b"GET /").unwrap();
        talk(&mut session, &mut client);
        let (request, then) = read_all(&mut session);
        assert_eq!(session.write(b"200 OK"), 6);
        talk(&mut session, &mut client);
        let mut response = [0; 9];
        let count = client.reader().read(&mut response).unwrap();

        assert_eq!(seen, Seen::GOOD, "{version:?}");
        let sni = Some("a.web.example".to_owned());
        assert_eq!(session.hello(), Some(&Hello { sni: sni.clone(), alpn: None }));
        let is_tls13 = version == Version::Tls13;
        assert_eq!(session.terms(), Some(&Terms { sni, alpn: None, auth_id: None, is_tls13 }));
        assert_eq!((&request[..], then), (&b"GET /"[..], Plain::Nothing));
        assert_eq!(&response[..count], b"200 OK");
    }
}

#[test]
fn the_hello_is_known_before_the_handshake_is_complete() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut session = Session::accept(&server);
    let mut client = rig.peer_client(&PeerClient::default());
    let mut octets = Vec::new();
    client.write_tls(&mut octets).unwrap();

    // One octet at a time.
    for octet in &octets {
        assert_eq!(session.hello(), None);
        assert_eq!(session.receive(&[*octet]), Ok(1));
    }

    assert_eq!(session.hello().unwrap().sni.as_deref(), Some("tak.example"));
    assert_eq!(session.write(b"too early"), 0);
    assert_eq!(session.terms(), None);
    assert_eq!(talk(&mut session, &mut client), Seen::GOOD);
    assert!(session.terms().is_some());
}

#[test]
fn the_first_rule_that_matches_gives_the_auth_id() {
    let rig = Rig::new();
    let rules = [
        ("bob@unit.example", "bob"),
        ("*@unit.example", "unit"),
        ("*.unit.example", "machine"),
        ("tracker.unit.example", "tracker"),
    ];
    let server = Arc::new(Server::load(&rig.two_way_profile(&rules)).unwrap());
    for (names, expected) in [
        (&["bob@unit.example"][..], "bob"),
        (&["alice@UNIT.example"], "unit"),
        (&["tracker.unit.example"], "machine"),
        (&["tracker.unit.example", "bob@unit.example"], "bob"),
    ] {
        for version in BOTH {
            let shows = rig.issue("theirs", Usage::Client, names);
            let mut session = Session::accept(&server);
            let client = PeerClient {
                shows: Some(&shows),
                versions: vec![version],
                ..PeerClient::default()
            };

            let seen = talk(&mut session, &mut rig.peer_client(&client));

            assert_eq!(seen, Seen::GOOD, "{names:?}, {version:?}");
            let auth_id = session.terms().unwrap().auth_id.clone().unwrap();
            assert_eq!(auth_id.as_str(), expected, "{names:?}, {version:?}");
        }
    }
}

#[test]
fn the_first_offered_protocol_that_is_allowed_is_chosen() {
    let rig = Rig::new();
    for (allowed, offered, expected) in [
        (&["h2", "http/1.1"][..], &["http/1.1", "h2"][..], Some("http/1.1")),
        (&["http/1.1", "h2"], &["spdy/1", "h2", "http/1.1"], Some("h2")),
        (&["h2"], &[], None),
        (&[], &["h2"], None),
    ] {
        let alpn = allowed.iter().map(|it| (*it).to_owned()).collect();
        let profile = ServerProfile { alpn, ..rig.server_profile() };
        let server = Arc::new(Server::load(&profile).unwrap());
        for version in BOTH {
            let mut session = Session::accept(&server);
            let client =
                PeerClient { alpn: offered, versions: vec![version], ..PeerClient::default() };
            let mut client = rig.peer_client(&client);

            let seen = talk(&mut session, &mut client);

            assert_eq!(seen, Seen::GOOD);
            let expected = expected.map(str::as_bytes);
            assert_eq!(client.alpn_protocol(), expected, "{allowed:?} {offered:?} {version:?}");
            assert_eq!(session.terms().unwrap().alpn.as_deref(), expected);
        }
    }
}

#[test]
fn a_server_is_called_by_name_or_by_its_address() {
    let rig = Rig::new();
    let shows = rig.issue("theirs", Usage::Server, &["web.example", "192.0.2.9"]);
    let client = Client::load(&rig.client_profile()).unwrap();
    for version in BOTH {
        for sni in [Some("web.example"), None] {
            let peer = PeerServer { versions: vec![version], ..PeerServer::new(&shows) };
            let mut peer = rig.peer_server(&peer);
            let mut session = client.connect(sni, NOWHERE, None).unwrap();

            let seen = talk(&mut session, &mut peer);
            assert_eq!(session.write(b"GET /"), 5);
            talk(&mut session, &mut peer);
            let mut request = [0; 9];
            let count = peer.reader().read(&mut request).unwrap();

            assert_eq!(seen, Seen::GOOD, "{version:?}, {sni:?}");
            assert_eq!(session.hello(), None);
            assert_eq!(session.terms().unwrap().sni.as_deref(), sni);
            let rustls::Connection::Server(peer) = peer else { panic!("a server") };
            assert_eq!(peer.server_name(), sni);
            assert_eq!(&request[..count], b"GET /");
        }
    }
}

#[test]
fn the_carried_protocol_is_spoken() {
    let rig = Rig::new();
    let shows = rig.issue("theirs", Usage::Server, &["web.example"]);
    let client = Client::load(&rig.client_profile()).unwrap();
    for (spoken, carried, agreed) in [
        (&["h2", "http/1.1"][..], Some("h2"), Some("h2")),
        (&["h2", "http/1.1"], Some("http/1.1"), Some("http/1.1")),
        (&["h2"], None, None),
        // Servers without ALPN speak HTTP/1.1.
        (&[], Some("http/1.1"), None),
    ] {
        let mut peer = rig.peer_server(&PeerServer { alpn: spoken, ..PeerServer::new(&shows) });
        let carried = carried.map(str::as_bytes);
        let mut session = client.connect(Some("web.example"), NOWHERE, carried).unwrap();

        let seen = talk(&mut session, &mut peer);

        assert_eq!(seen, Seen::GOOD, "{spoken:?}, {carried:?}");
        assert_eq!(session.terms().unwrap().alpn.as_deref(), agreed.map(str::as_bytes));
    }
}

#[test]
fn a_target_is_called_with_its_own_certificate_and_anchors() {
    let rig = Rig::new();
    let shows = rig.issue("theirs", Usage::Server, &["tak.example"]);
    let bob = rig.issue("ours", Usage::Client, &["bob@unit.example"]);
    let target = TargetProfile {
        id: "bob".parse().unwrap(),
        to: "10.9.0.1:8089".parse().unwrap(),
        server_name: ServerName::try_from("tak.example").unwrap(),
        trust_anchors: Some(rig.anchors("theirs")),
        credentials: Some(bob.clone()),
        users: Ends::default(),
    };
    let profile = ClientProfile {
        trust_anchors: rig.anchors("ours"),
        targets: vec![target],
        ..rig.client_profile()
    };
    let client = Client::load(&profile).unwrap();
    for version in BOTH {
        let peer = PeerServer { asks: true, versions: vec![version], ..PeerServer::new(&shows) };
        let mut peer = rig.peer_server(&peer);
        let target = client.target("bob").unwrap();
        let mut session = target.connect(None).unwrap();

        let seen = talk(&mut session, &mut peer);

        assert_eq!(seen, Seen::GOOD, "{version:?}");
        assert_eq!(target.destination().to_string(), "10.9.0.1:8089");
        let shown = files::chain(&bob.certificate).unwrap();
        assert_eq!(peer.peer_certificates(), Some(&shown[..]));
    }
}

#[test]
fn profiles_are_found_by_name_and_renewed_beside_living_sessions() {
    let rig = Rig::new();
    let server = |profile| Profile { name: "web".to_owned(), role: Role::Server(profile) };
    let far = Profile { name: "far".to_owned(), role: Role::Client(rig.client_profile()) };
    let old = rig.server_profile();
    let mut profiles = Profiles::load(&[server(old.clone()), far.clone()]).unwrap();
    let mut session = Session::accept(profiles.server("web").unwrap());
    let mut client = rig.peer_client(&PeerClient::default());
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    session.receive(&hello[..20]).unwrap();

    // The renewed certificate is for another name; the session goes on with the old one.
    let renewed = ServerProfile {
        credentials: rig.issue("ours", Usage::Server, &["new.example"]),
        ..old.clone()
    };
    std::fs::copy(&renewed.credentials.certificate, &old.credentials.certificate).unwrap();
    let half = profiles.reload(&[server(old.clone()), far.clone()]).unwrap_err().to_string();
    let unchanged = profiles.server("web").unwrap().is_for("tak.example");
    std::fs::copy(&renewed.credentials.key, &old.credentials.key).unwrap();
    profiles.reload(&[server(old), far]).unwrap();
    session.receive(&hello[20..]).unwrap();
    let seen = talk(&mut session, &mut client);

    assert!(half.ends_with(".key: the key does not fit the certificate"), "{half}");
    assert!(unchanged);
    assert_eq!(seen, Seen::GOOD);
    assert!(profiles.server("web").unwrap().is_for("new.example"));
    assert!(!profiles.server("web").unwrap().is_for("tak.example"));
    assert!(profiles.client("far").is_some());
    assert!(profiles.client("web").is_none());
}

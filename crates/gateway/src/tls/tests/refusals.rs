//! Sessions that fail, and what each side learns of it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::AlertDescription as Alert;
use rustls::Error;

use super::super::authority::Usage;
use super::super::*;
use super::rig::{BOTH, PeerClient, PeerServer, Rig, Seen, talk, transmitted, wrong_times};

const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

#[test]
fn a_client_without_the_right_certificate_is_told_why() {
    let rig = Rig::new();
    let server =
        Arc::new(Server::load(&rig.two_way_profile(&[("*@unit.example", "unit")])).unwrap());
    let names = &["bob@unit.example"];
    let [past, future] = wrong_times();
    let expired = rig.issue_for("theirs", Usage::Client, names, past);
    let early = rig.issue_for("theirs", Usage::Client, names, future);
    let foreign = rig.issue("ours", Usage::Client, names);
    let unmatched = rig.issue("theirs", Usage::Client, &["bob@other.example"]);
    let misused = rig.issue("theirs", Usage::Server, names);
    for (shows, failure, alert) in [
        (Some(&expired), Failure::Expired, Alert::CertificateExpired),
        (Some(&early), Failure::NotYetValid, Alert::CertificateExpired),
        (Some(&foreign), Failure::UnknownCa, Alert::UnknownCA),
        (Some(&unmatched), Failure::UnmatchedClient, Alert::AccessDenied),
        (Some(&misused), Failure::WrongUse, Alert::UnsupportedCertificate),
        (None, Failure::NoClientCertificate, Alert::CertificateRequired),
    ] {
        for version in BOTH {
            let mut session = Session::accept(&server);
            let client = PeerClient { shows, versions: vec![version], ..PeerClient::default() };

            let seen = talk(&mut session, &mut rig.peer_client(&client));

            let peer = Some(Error::AlertReceived(alert));
            assert_eq!(seen, Seen { failure: Some(failure), peer }, "{version:?}");
            assert_eq!(session.terms(), None);
            assert_eq!(session.read(&mut [0; 9]), Plain::Broken);
        }
    }
}

#[test]
fn a_client_that_wants_something_else_is_told_so() {
    let rig = Rig::new();
    let profile = ServerProfile {
        alpn: vec!["h2".to_owned()],
        versions: vec![Version::Tls13],
        ..rig.server_profile()
    };
    let server = Arc::new(Server::load(&profile).unwrap());
    let default = PeerClient::default;
    for (client, failure, alert) in [
        (
            PeerClient { name: "other.example", ..default() },
            Failure::UnknownName,
            Alert::UnrecognisedName,
        ),
        (
            PeerClient { name: "a.b.web.example", ..default() },
            Failure::UnknownName,
            Alert::UnrecognisedName,
        ),
        (
            PeerClient { alpn: &["http/1.1"], ..default() },
            Failure::AlpnRefused,
            Alert::NoApplicationProtocol,
        ),
        (
            PeerClient { versions: vec![Version::Tls12], ..default() },
            Failure::Unsupported,
            Alert::ProtocolVersion,
        ),
    ] {
        let mut session = Session::accept(&server);

        let seen = talk(&mut session, &mut rig.peer_client(&client));

        let peer = Some(Error::AlertReceived(alert));
        assert_eq!(seen, Seen { failure: Some(failure), peer }, "{}", client.name);
        assert_eq!((session.hello(), session.wants_transmit()), (None, false));
    }
}

#[test]
fn a_client_that_does_not_trust_us_says_so() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    for version in BOTH {
        let mut session = Session::accept(&server);
        let client =
            PeerClient { trusts: "theirs", versions: vec![version], ..PeerClient::default() };

        let seen = talk(&mut session, &mut rig.peer_client(&client));

        assert_eq!(seen.failure, Some(Failure::PeerRefused(Alert::UnknownCA)), "{version:?}");
    }
}

#[test]
fn a_server_with_the_wrong_certificate_is_refused() {
    let rig = Rig::new();
    let client = Client::load(&rig.client_profile()).unwrap();
    let names = &["web.example"];
    let [past, future] = wrong_times();
    let good = rig.issue("theirs", Usage::Server, names);
    let expired = rig.issue_for("theirs", Usage::Server, names, past);
    let early = rig.issue_for("theirs", Usage::Server, names, future);
    let foreign = rig.issue("ours", Usage::Server, names);
    let misused = rig.issue("theirs", Usage::Client, names);
    for (shows, sni, failure, alert) in [
        (&expired, Some("web.example"), Failure::Expired, Alert::CertificateExpired),
        (&early, Some("web.example"), Failure::NotYetValid, Alert::CertificateExpired),
        (&foreign, Some("web.example"), Failure::UnknownCa, Alert::UnknownCA),
        (&misused, Some("web.example"), Failure::WrongUse, Alert::UnsupportedCertificate),
        (&good, Some("other.example"), Failure::WrongName, Alert::BadCertificate),
        // Without SNI the certificate has to name the address.
        (&good, None, Failure::WrongName, Alert::BadCertificate),
    ] {
        for version in BOTH {
            let peer = PeerServer { versions: vec![version], ..PeerServer::new(shows) };
            let mut session = client.connect(sni, NOWHERE, None).unwrap();

            let seen = talk(&mut session, &mut rig.peer_server(&peer));

            let peer = Some(Error::AlertReceived(alert));
            assert_eq!(seen, Seen { failure: Some(failure), peer }, "{version:?}");
            assert_eq!(session.write(b"secret"), 0);
            assert_eq!(session.terms(), None);
        }
    }
}

#[test]
fn a_server_that_speaks_another_protocol_is_refused() {
    let rig = Rig::new();
    let client = Client::load(&rig.client_profile()).unwrap();
    let shows = rig.issue("theirs", Usage::Server, &["web.example"]);
    for (spoken, carried) in [(&[][..], "h2"), (&["http/1.1"], "h2"), (&["h2"], "http/1.1")] {
        for version in BOTH {
            let peer =
                PeerServer { alpn: spoken, versions: vec![version], ..PeerServer::new(&shows) };
            let alpn = Some(carried.as_bytes());
            let mut session = client.connect(Some("web.example"), NOWHERE, alpn).unwrap();

            let seen = talk(&mut session, &mut rig.peer_server(&peer));

            assert_eq!(seen.failure, Some(Failure::AlpnMismatch), "{spoken:?} {version:?}");
            assert_eq!(session.write(b"secret"), 0);
            assert_eq!(session.terms(), None);
        }
    }
}

#[test]
fn a_server_that_asks_for_more_than_we_have_refuses_us() {
    let rig = Rig::new();
    let shows = rig.issue("theirs", Usage::Server, &["web.example"]);
    for (ours, theirs, asks, failure) in [
        (Version::Tls12, Version::Tls12, true, Failure::PeerRefused(Alert::CertificateRequired)),
        (Version::Tls13, Version::Tls13, true, Failure::PeerRefused(Alert::CertificateRequired)),
        (Version::Tls12, Version::Tls13, false, Failure::PeerRefused(Alert::ProtocolVersion)),
    ] {
        let profile = ClientProfile { versions: vec![ours], ..rig.client_profile() };
        let client = Client::load(&profile).unwrap();
        let peer = PeerServer { asks, versions: vec![theirs], ..PeerServer::new(&shows) };
        let mut session = client.connect(Some("web.example"), NOWHERE, None).unwrap();

        let seen = talk(&mut session, &mut rig.peer_server(&peer));

        assert_eq!(seen.failure, Some(failure));
    }
}

#[test]
fn what_the_far_gateway_asks_for_has_to_make_sense() {
    let rig = Rig::new();
    let client = Client::load(&rig.client_profile()).unwrap();
    let connect =
        |sni: Option<&str>, alpn: Option<&[u8]>| client.connect(sni, NOWHERE, alpn).map(drop);

    for sni in ["", "a b", "192.0.2.9", "a\0.example", "*.example", &"x".repeat(300)] {
        assert_eq!(connect(Some(sni), None), Err(Failure::InvalidName), "{sni:?}");
    }
    assert_eq!(connect(None, Some(b"")), Err(Failure::InvalidName));
    assert_eq!(connect(None, Some(&[b'x'; 256])), Err(Failure::InvalidName));
    assert_eq!(connect(None, Some(&[b'x'; 255])), Ok(()));
    assert_eq!(client.target("bob").map(drop), Err(Failure::UnknownAuthId));
}

#[test]
fn what_is_not_tls_is_told_by_its_first_octet() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut session = Session::accept(&server);

    assert_eq!(session.receive(b""), Ok(0));
    assert_eq!(session.receive(b"GET / HTTP/1.1\r\n"), Err(Failure::NotTls));
    assert_eq!(session.receive(b"Host: tak.example\r\n"), Ok(19));
    assert_eq!((transmitted(&mut session), session.receive_end()), (Vec::new(), Ok(())));

    let client = Client::load(&rig.client_profile()).unwrap();
    let mut session = client.connect(Some("web.example"), NOWHERE, None).unwrap();
    assert!(session.receive(b"220 smtp.example ESMTP\r\n").is_err());
}

#[test]
fn each_failure_has_a_counter_and_a_sentence() {
    use Failure::*;
    let all = [
        AlpnMismatch,
        AlpnRefused,
        BadCertificate,
        Cut,
        EndedEarly,
        Expired,
        InvalidName,
        NoClientCertificate,
        NotTls,
        NotYetValid,
        Oversized,
        PeerRefused(Alert::UnknownCA),
        TimedOut,
        UnknownAuthId,
        UnknownCa,
        UnknownName,
        UnmatchedClient,
        Unsupported,
        Violation,
        WrongName,
        WrongUse,
    ];
    let counted = |stats: &Stats| {
        let serde_json::Value::Object(counters) = serde_json::to_value(stats).unwrap() else {
            panic!("an object")
        };
        counters.into_iter().filter(|(_, count)| *count != 0).collect::<Vec<_>>()
    };
    let mut names = Vec::new();
    for failure in all {
        let mut stats = Stats::default();

        stats.count(failure);

        let [(name, count)] = &counted(&stats)[..] else { panic!("{stats:?}") };
        assert_eq!(count, 1);
        assert!(!names.contains(name), "{name} is there twice");
        names.push(name.clone());
        let sentence = failure.to_string();
        assert!(sentence.len() > 20 && !sentence.contains('\n'), "{sentence}");
    }
}

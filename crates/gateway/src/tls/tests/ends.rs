//! How sessions end: one direction after the other, or cut off.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::super::authority::Usage;
use super::super::*;
use super::rig::{BOTH, PeerClient, PeerServer, Rig, Seen, read_all, talk};

#[test]
fn a_direction_ends_and_the_other_goes_on() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    for version in BOTH {
        let mut session = Session::accept(&server);
        let client = PeerClient { versions: vec![version], ..PeerClient::default() };
        let mut client = rig.peer_client(&client);
        talk(&mut session, &mut client);

        client.writer().write_all(b"all I have").unwrap();
        client.send_close_notify();
        talk(&mut session, &mut client);
        let request = read_all(&mut session);
        let ended = session.receive_end();
        let written = session.write(b"the answer");
        session.end();
        session.end();
        let late = session.write(b"more");
        talk(&mut session, &mut client);
        let mut response = Vec::new();
        client.reader().read_to_end(&mut response).unwrap();

        assert_eq!(request, (b"all I have".to_vec(), Plain::End), "{version:?}");
        assert_eq!((ended, written, late), (Ok(()), 10, 0));
        assert_eq!(response, b"the answer");
        assert_eq!(session.read(&mut [0; 9]), Plain::End);
    }
}

#[test]
fn an_end_without_close_notify_is_a_cut_after_what_was_received() {
    let rig = Rig::new();
    let shows = rig.issue("theirs", Usage::Server, &["web.example"]);
    let client = Client::load(&rig.client_profile()).unwrap();
    for version in BOTH {
        let mut peer =
            rig.peer_server(&PeerServer { versions: vec![version], ..PeerServer::new(&shows) });
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut session = client.connect(Some("web.example"), nowhere, None).unwrap();
        talk(&mut session, &mut peer);
        peer.writer().write_all(b"half of").unwrap();
        talk(&mut session, &mut peer);

        let ended = session.receive_end();
        let again = session.receive_end();

        assert_eq!((ended, again), (Err(Failure::Cut), Ok(())), "{version:?}");
        assert_eq!(read_all(&mut session), (b"half of".to_vec(), Plain::Broken));
        assert_eq!(session.write(b"anybody?"), 0);
    }
}

#[test]
fn an_end_during_the_handshake_is_early() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut hello = Vec::new();
    rig.peer_client(&PeerClient::default()).write_tls(&mut hello).unwrap();
    for count in [0, 1, hello.len()] {
        let mut session = Session::accept(&server);
        session.receive(&hello[..count]).unwrap();

        assert_eq!(session.receive_end(), Err(Failure::EndedEarly));
        assert_eq!(session.read(&mut [0; 9]), Plain::Broken);
    }
}

#[test]
fn a_changed_octet_breaks_the_session_after_what_was_right() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    for version in BOTH {
        let mut session = Session::accept(&server);
        let client = PeerClient { versions: vec![version], ..PeerClient::default() };
        let mut client = rig.peer_client(&client);
        assert_eq!(talk(&mut session, &mut client), Seen::GOOD);
        let mut octets = Vec::new();
        client.writer().write_all(b"right").unwrap();
        client.write_tls(&mut octets).unwrap();
        let right = octets.len();
        client.writer().write_all(b"wrong").unwrap();
        client.write_tls(&mut octets).unwrap();
        octets[right + 10] ^= 1;

        let failed = session.receive(&octets);

        assert_eq!(failed, Err(Failure::Violation), "{version:?}");
        assert_eq!(read_all(&mut session), (b"right".to_vec(), Plain::Broken));
        assert!(session.wants_transmit(), "an alert");
    }
}

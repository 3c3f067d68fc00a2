//! What hostile and slow peers can make a session hold.

use std::io::Write as _;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::*;
use super::rig::{PeerClient, Rig, Seen, read_all, talk, transmitted};

/// What a session is told never to hold more of.
const MOST: usize = 64 << 10;

#[test]
fn a_hello_without_end_is_refused() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    // A handshake of 65,000 octets, in records of 1,000.
    let record = |content: &[u8]| {
        let len = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[22, 3, 1, len[0], len[1]], content].concat()
    };
    let mut session = Session::accept(&server);
    let mut taken = 0;

    let first = [&[1, 0, 0xfd, 0xe8][..], &[0; 996]].concat();
    let mut outcome = session.receive(&record(&first));
    while outcome.is_ok() && taken < MOST {
        taken += 1_005;
        outcome = session.receive(&record(&[0; 1_000]));
    }

    assert_eq!(outcome, Err(Failure::Oversized));
    assert!(taken < 17 << 10, "{taken}");
    assert_eq!(transmitted(&mut session), [21, 3, 3, 0, 2, 2, 50]);
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut session = Session::accept(&server);
    assert!(session.receive(&[22, 3, 1, 0xff, 0xff]).is_err());

    let mut session = Session::accept(&server);
    assert_eq!(talk(&mut session, &mut rig.peer_client(&PeerClient::default())), Seen::GOOD);
    assert!(session.receive(&[23, 3, 3, 0xff, 0xff, 0]).is_err());
}

#[test]
fn plain_octets_that_nobody_reads_stop_the_sender() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut session = Session::accept(&server);
    let mut client = rig.peer_client(&PeerClient::default());
    talk(&mut session, &mut client);
    client.set_buffer_limit(None);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    client.writer().write_all(&sent).unwrap();
    let mut octets = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut octets).unwrap();
    }

    let (mut rest, mut received) = (&octets[..], Vec::new());
    while !rest.is_empty() {
        let taken = session.receive(rest).unwrap();
        assert!(taken <= MOST, "{taken}");
        assert!(session.is_full() || taken == rest.len());
        assert_eq!(if session.is_full() { session.receive(&rest[taken..]) } else { Ok(0) }, Ok(0));
        rest = &rest[taken..];
        received.extend(read_all(&mut session).0);
        assert!(!session.is_full());
    }

    assert_eq!(received, sent);
}

#[test]
fn octets_that_tcp_does_not_take_stop_the_writer() {
    let rig = Rig::new();
    let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
    let mut session = Session::accept(&server);
    let mut client = rig.peer_client(&PeerClient::default());
    talk(&mut session, &mut client);

    let mut written = 0;
    for _ in 0..100 {
        written += session.write(&[7; 10_000]);
    }
    let waiting = transmitted(&mut session).len();

    assert!((30_000..=MOST).contains(&written), "{written}");
    assert!(waiting < MOST + 1_000, "{waiting}");
    assert_eq!(session.write(&[7; 10_000]), 10_000);
}

proptest! {
    #![proptest_config(harness::cases(64))]

    #[test]
    fn garbage_never_panics_and_fails_once(
        start in prop::collection::vec(any::<u8>(), 0..40),
        garbage in prop::collection::vec(any::<u8>(), 1..3_000),
        at in 0_usize..600,
        is_hello in any::<bool>(),
    ) {
        let rig = Rig::new();
        let server = Arc::new(Server::load(&rig.server_profile()).unwrap());
        let mut session = Session::accept(&server);
        let mut octets = start;
        if is_hello {
            octets.clear();
            rig.peer_client(&PeerClient::default()).write_tls(&mut octets).unwrap();
            let at = at.min(octets.len() - 1);
            octets[at] ^= garbage[0] | 1;
        }
        octets.extend(garbage);

        let failures = octets.chunks(97).filter(|chunk| session.receive(chunk).is_err()).count();
        let ended = session.receive_end();

        prop_assert_eq!(failures + usize::from(ended.is_err()), 1);
        prop_assert_eq!(session.read(&mut [0; 9]), Plain::Broken);
        prop_assert!(transmitted(&mut session).len() < 8 << 10);
    }
}

//! Datagrams between members of a group.

use base::ip::protocol::ICMP;

use super::{Bench, FAR, NEAR, OTHER, config, icmp, tell, u_pdu, udp};
use crate::ipclient::{Config, Event};
use crate::s5066::Address;
use crate::s5066::seal::{Envelope, Member, Notice, OVERHEAD, Refusal, Trouble, behind};
use crate::s5066::service::{Mode, Outcome};
use crate::s5066::sis::Sap;
use crate::slep::tests::group::member;

const SAP: Sap = Sap::IP_CLIENT;

fn grouped() -> Config {
    Config { group: Some(member(NEAR, 1)), ..config() }
}

/// The other station.
fn far(bench: &Bench) -> Member {
    let mut far = Member::new(member(FAR, 1));
    far.start(bench.now);
    far
}

#[test]
fn a_datagram_is_sealed_for_its_node_and_its_group() {
    let mut bench = Bench::new(grouped());
    let mut far = far(&bench);
    for to in [[10, 0, 2, 9], [239, 1, 0, 1]] {
        let packet = udp(to, 0, 100);
        bench.send(&packet);
        let request = bench.requests().remove(0);

        let envelope = Envelope { from: NEAR, from_sap: SAP, to: request.to, to_sap: SAP };
        let sealed = u_pdu(&request);
        assert_eq!(sealed.len(), 100 + usize::from(OVERHEAD));
        assert_eq!(far.open(bench.now, envelope, sealed), Ok(&packet[..]));
    }
    assert_eq!(bench.client.mtu(), 2_048 - OVERHEAD);
}

#[test]
fn only_what_the_group_has_sealed_comes_in() {
    let mut bench = Bench::new(grouped());
    let mut far = far(&bench);
    let packet = udp([10, 0, 1, 9], 0, 60);
    let sealed = far.seal(bench.now, SAP, NEAR, SAP, &packet);

    for u_pdu in [&packet[..], &sealed, &sealed] {
        bench.receive(u_pdu);
    }
    let mut changed = sealed.clone();
    changed[20] ^= 1;
    bench.receive(&changed);
    bench.receive_in(Mode::ONCE, &packet);

    assert_eq!(bench.packets(), [packet]);
    let seals = bench.client.client_stats().seals;
    let refused = (seals.unauthenticated, seals.replayed, seals.forged);
    assert_eq!((refused, seals.opened), ((2, 1, 1), 1));
    let trouble = |refusal| Event::Sealing { node: FAR, trouble: Trouble::Refused(refusal) };
    let [unsealed, replayed, forged] =
        [Refusal::Unsealed, Refusal::Replayed, Refusal::Forged].map(trouble);
    assert_eq!(bench.events, [unsealed, replayed, forged, unsealed]);
    // The node is told once, whatever was wrong.
    let sent: Vec<_> = bench.requests().iter().map(|it| u_pdu(it).to_vec()).collect();
    assert_eq!(sent, [Notice::Unsealed.octets().to_vec()]);
}

/// A station without a key does not take what is sealed for a datagram, however it begins.
#[test]
fn without_a_key_what_is_sealed_is_dropped_and_its_sender_told() {
    let mut bench = Bench::new(config());
    let sealed = far(&bench).seal(bench.now, SAP, NEAR, SAP, &udp([10, 0, 1, 9], 0, 60));

    bench.receive(&sealed);

    assert_eq!(bench.packets(), [] as [Vec<u8>; 0]);
    let keyless = Trouble::Refused(Refusal::Keyless);
    assert_eq!(bench.events, [Event::Sealing { node: FAR, trouble: keyless }]);
    let requests = bench.requests();
    assert_eq!(u_pdu(&requests[0]), Notice::Keyless.octets());
    // What becomes of the notice concerns nobody.
    bench.outcome(&requests[0], Outcome::not_arrived(crate::s5066::service::Failure::NoResponse));
    assert_eq!(bench.client.stats().handed.unreachable, 0);
    // A notice is no datagram either.
    bench.receive(&Notice::Forged.octets());
    let told = Trouble::Told(Notice::Forged);
    assert_eq!(bench.events[1..], [Event::Sealing { node: FAR, trouble: told }]);
}

/// However many nodes a stranger claims to be: nobody else is called for longer than that.
#[test]
fn few_nodes_are_told_and_none_that_there_is_no_link_with() {
    let mut bench = Bench::new(grouped());
    bench.receive_in(Mode::ONCE, b"no link");
    assert_eq!(bench.requests().len(), 0);
    for number in 100..200 {
        bench.receive_from(Address::node(number), b"a datagram?");
    }

    assert_eq!(bench.requests().len(), 16);
    let seals = bench.client.client_stats().seals;
    assert_eq!((seals.unauthenticated, seals.notices_sent), (101, 16));
}

#[test]
fn what_a_node_gives_back_is_known_again() {
    let mut bench = Bench::new(grouped());
    bench.server.handle_introduced(FAR, true);
    for len in [100, 101] {
        bench.send(&udp([10, 0, 2, 9], 0, len));
    }
    let requests = bench.requests();
    // One is confirmed before, the other is not.
    bench.outcome(&requests[0], Outcome::Done);
    for request in &requests {
        bench.reject_from_far(request);
    }

    let told: Vec<_> = bench.packets().iter().map(|packet| icmp(packet)).collect();
    assert_eq!(told, [(ICMP, 3, 1); 2]);
    assert_eq!(bench.client.stats().handed.unreceived, 2);
}

#[test]
fn a_node_that_is_listed_is_sent_plain_datagrams() {
    let mut config = grouped();
    if let Some(group) = &mut config.group {
        group.unauthenticated.insert(OTHER);
    }
    let mut bench = Bench::new(config);
    bench.send(&udp([10, 0, 2, 200], 0, 100));
    bench.send(&udp([10, 0, 2, 9], 0, 100));

    let requests = bench.requests();
    let told: Vec<_> = requests.iter().map(tell).collect();

    assert_eq!(told.len(), 2);
    assert_eq!((requests[0].to, u_pdu(&requests[0]).len()), (OTHER, 100));
    assert_eq!((requests[1].to, behind(u_pdu(&requests[1])).len()), (FAR, 100));
}

//! A peer that may be at several addresses, which its name has.

use std::collections::BTreeSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// Where b may be, too.
const OTHER: &str = "198.51.100.9:1";

#[test]
fn addresses_have_their_turns_until_one_answers() {
    let mut net = Net::with(|b_for_a, _| b_for_a.endpoint = None);
    net.ends[0].peers.handle_endpoints(
        net.now,
        PeerId(0),
        &["[fd00::2]:51900", OTHER, "192.0.2.2:51900"].map(address),
    );
    let began = net.now;

    net.collect(0);
    let first: Vec<_> = net.wire.iter().map(|(_, outgoing)| outgoing.to).collect();
    net.wait(SECOND * 3);

    // Nobody is at the first two.
    assert_eq!(first, ["[fd00::2]:51900"].map(address));
    net.assert_connected();
    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(address("192.0.2.2:51900")));
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, 3);
    assert_eq!(net.now, began + SECOND * 3);
}

#[test]
fn calls_in_vain_leave_from_fresh_ports_too_until_one_is_answered() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    let (began, mut calls) = (net.now, Vec::new());

    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    for _ in 0..90 {
        net.collect(0);
        for (_, Outgoing { fresh, .. }) in std::mem::take(&mut net.wire) {
            calls.push((net.now.since(began).as_secs(), fresh.map(|fresh| fresh.number)));
        }
        net.now += SECOND;
        net.ends.iter_mut().for_each(|end| end.peers.handle_timeout(net.now));
    }
    let kinds = |from: u64| -> BTreeSet<_> {
        let its = calls.iter().filter(|(at, _)| (from..from + 30).contains(at));
        its.map(|(_, number)| *number).collect()
    };

    assert_eq!(kinds(0), BTreeSet::from([None]));
    assert_eq!(kinds(30), BTreeSet::from([None, Some(1)]));
    assert_eq!(kinds(60), BTreeSet::from([None, Some(2)]));
    let asked = calls.iter().filter(|(_, fresh)| fresh.is_some()).count() as u64;
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_fresh, asked);

    net.wait(SECOND * 6);
    net.assert_connected();
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.collect(0);
    assert!(net.wire.iter().all(|(_, outgoing)| outgoing.fresh.is_none()), "{:?}", net.wire);
}

#[test]
fn a_call_that_came_first_from_a_false_address_moves_nobody() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.collect(0);
    let (_, call) = net.wire.remove(0);

    net.deliver(address(OTHER), call.clone());
    net.collect(1);
    net.wire.clear();
    // The answer is lost; a repeats its call.
    net.deliver(net.ends[0].address, call);
    net.settle();

    net.assert_connected();
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(net.ends[0].address));
    let stats = net.ends[1].peers.stats(PeerId(0));
    // The first is how b learnt where a is.
    assert_eq!((stats.sessions, stats.moves), (2, 1));
}

#[test]
fn addresses_of_a_peer_that_is_heard_change_without_a_word() {
    let mut net = Net::pair();
    net.settle();
    // b has moved by itself.
    net.ends[1].address = address(OTHER);
    net.send(1, "from elsewhere");
    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(address(OTHER)));
    let before = net.ends[0].peers.stats(PeerId(0));

    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[address("192.0.2.77:51900")]);
    net.settle();

    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(address(OTHER)));
    assert_eq!(net.ends[0].peers.stats(PeerId(0)), before);
    net.assert_connected();
}

#[test]
fn a_name_that_leads_astray_does_not_hide_where_the_peer_was_heard() {
    let mut net = Net::pair();
    net.settle();
    net.ends[1].address = address(OTHER);
    net.send(1, "from elsewhere");
    let astray = address("192.0.2.77:51900");

    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[astray]);

    // The first call was before the name was heard of.
    let heard = address(OTHER);
    assert_eq!(net.lost_calls(5), [heard, astray, heard, astray, heard]);
    net.wait(SECOND * 5);
    net.assert_connected();
    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(heard));
}

#[test]
fn an_address_that_works_is_not_left_for_a_call_that_is_lost() {
    let mut net = Net::pair();
    let [used, other] = ["192.0.2.2:51900", OTHER].map(address);
    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[used, other]);
    net.settle();
    net.assert_connected();

    // Those that are due after two minutes.
    assert_eq!(net.lost_calls(7), [used, used, used, used, used, other, used]);
}

#[test]
fn the_same_addresses_in_another_order_are_no_news() {
    let mut net = Net::with(|b_for_a, _| b_for_a.endpoint = None);
    let mut both = [OTHER, "198.51.100.10:1"].map(address);
    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &both);
    let before = net.ends[0].peers.stats(PeerId(0)).calls_sent;

    both.reverse();
    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &both);

    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, before);
    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(address(OTHER)));
    assert_eq!(net.ends[0].peers.endpoints(PeerId(0)).count(), 3);
}

impl Net {
    /// Lets the first end do what is due until it has made so many calls, loses all that it sends, and returns
    /// where the calls went.
    fn lost_calls(&mut self, count: usize) -> Vec<SocketAddr> {
        let mut calls = Vec::new();
        loop {
            self.collect(0);
            let sent = std::mem::take(&mut self.wire);
            let is_call = |(_, outgoing): &&(usize, Outgoing)| outgoing.datagram[0] == 1;
            calls.extend(sent.iter().filter(is_call).map(|(_, outgoing)| outgoing.to));
            if calls.len() >= count {
                return calls;
            }
            self.now = self.ends[0].peers.next_timeout().unwrap();
            self.ends[0].peers.handle_timeout(self.now);
        }
    }
}

#[test]
fn a_call_that_came_sealed_by_a_further_path_is_answered_on_the_first() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.collect(0);
    let (_, mut call) = net.wire.remove(0);

    net.ends[1].peers.handle_carried(net.now, PeerId(0), &mut call.datagram);
    net.collect(1);
    let answered: Vec<_> = net.wire.iter().map(|(from, it)| (*from, it.to)).collect();
    net.settle();

    assert_eq!(answered, [(1, net.ends[0].address)]);
    assert!(net.story().contains(&"a rekeyed".to_owned()));
    let malformed = |net: &Net| net.ends[1].peers.totals().malformed;
    let before = malformed(&net);
    net.ends[1].peers.handle_carried(net.now, PeerId(0), &mut [0; 100]);
    assert_eq!(malformed(&net), before + 1);
}

//! A peer that starts while others call without end.

use std::net::Ipv6Addr;

use super::super::guard::open_cookie;
use super::super::mac::{append_mac1, append_mac2, mac_key};
use super::super::noise::INITIATION;
use super::super::wire::{Call, Datagram, Index, MAC};
use super::*;

/// Calls a second.
const RATE: u32 = 40_000;
const MILLISECOND: Duration = Duration::from_millis(1);

/// A call by nobody, for b, with what a cookie makes of it.
fn call(cookie: Option<&[u8; MAC]>) -> Vec<u8> {
    let mut datagram = Call::begin(Index::new(7), &[3; INITIATION]);
    append_mac1(&mac_key(&key(2).public_key()), &mut datagram);
    append_mac2(cookie, &mut datagram);
    datagram
}

/// How long a peer that starts anew waits for its session while these call in turn.
fn delay(net: &mut Net, callers: &[(SocketAddr, Vec<u8>)]) -> Duration {
    let mut callers = callers.iter().cycle();
    let mut flood = |net: &mut Net| {
        for _ in 0..RATE / 1_000 {
            net.now += MILLISECOND / (RATE / 1_000);
            let (from, call) = callers.next().unwrap();
            net.ends[1].peers.handle_datagram(net.now, *from, &mut call.clone());
        }
        for end in [0, 1] {
            net.ends[end].peers.handle_timeout(net.now);
            net.collect(end);
            for (from, outgoing) in std::mem::take(&mut net.wire) {
                net.deliver(net.ends[from].address, outgoing);
            }
        }
    };
    for _ in 0..500 {
        flood(net);
    }
    net.restart(0, UNIX + Duration::from_secs(1));
    let began = net.now;
    while !net.ends[0].peers.has_session(net.now, PeerId(0)) {
        assert!(net.now.since(began) < Duration::from_secs(20), "{:?}", net.ends[1].peers.totals());
        flood(net);
    }
    let waited = net.now.since(began);
    println!("a session after {waited:?}");
    waited
}

#[test]
fn forged_calls_delay_a_session_by_less_than_a_second() {
    let mut net = Net::pair();
    net.settle();
    let forged: Vec<_> = (0..10_000_u32)
        .map(|number| (Ipv6Addr::from_bits(u128::from(number) << 80 | 0x2001 << 112), 1).into())
        .map(|from| (from, call(None)))
        .collect();

    let waited = delay(&mut net, &forged);

    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[test]
fn calls_from_a_thousand_networks_with_cookies_delay_a_session_by_less_than_a_second() {
    let mut net = Net::pair();
    net.settle();
    let own = key(2).public_key();
    // Until the budget for all is spent, nobody is sent a cookie.
    let from = |number: u32| {
        SocketAddr::from((Ipv6Addr::from_bits(u128::from(number) << 80 | 0x2001 << 112), 1))
    };
    (0..200).for_each(|_| {
        let _ = net.ends[1].peers.handle_datagram(net.now, from(0), &mut call(None));
    });
    let proven: Vec<_> = (0..1_190)
        .map(|number| {
            while net.ends[1].peers.poll_transmit(net.now).is_some() {}
            let mut first = call(None);
            let mac1: [u8; MAC] = first[first.len() - 2 * MAC..][..MAC].try_into().unwrap();
            net.ends[1].peers.handle_datagram(net.now, from(number), &mut first);
            let said = net.ends[1].peers.poll_transmit(net.now).unwrap();
            let Ok(Datagram::Cookie(cookie)) = Datagram::parse(&said.datagram) else { panic!() };
            (from(number), call(open_cookie(&own, &mac1, &cookie).as_ref()))
        })
        .collect();

    let waited = delay(&mut net, &proven);

    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

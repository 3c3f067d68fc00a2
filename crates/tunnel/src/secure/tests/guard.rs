//! Cookies: what they are bound to, and how long they are good.

use super::super::guard::{COOKIE_LIFE, Guard, Verdict, cookie_key, open_cookie};
use super::super::mac::{append_mac1, append_mac2, mac_key};
use super::super::noise::INITIATION;
use super::super::wire::{Call, Datagram, Index, MAC};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A guard, and someone who calls it without end.
struct Gate {
    guard: Guard,
    secrets: Seeded,
    own: PublicKey,
    now: Time,
}

impl Gate {
    fn new() -> Self {
        let (own, mut secrets) = (key(1).public_key(), Seeded(Rng::stream(1, "guard")));
        let now = Time::ZERO + SECOND * 10;
        Self { guard: Guard::new(now, &mut secrets).unwrap(), secrets, own, now }
    }

    /// Judges a call from there; `cookie` is what the caller has.
    fn judge(&mut self, from: &str, cookie: Option<&[u8; MAC]>) -> (Verdict, [u8; MAC]) {
        let mut datagram = Call::begin(Index::new(7), &[3; INITIATION]);
        append_mac1(&mac_key(&self.own), &mut datagram);
        append_mac2(cookie, &mut datagram);
        let Ok(Datagram::Call(call)) = Datagram::parse(&datagram) else { panic!("a call") };
        let cookie_key = cookie_key(&self.own);
        let verdict =
            self.guard.judge(self.now, address(from), &call, &cookie_key, &mut self.secrets);
        (verdict, *call.mac1)
    }

    /// Calls until keys are computed only for those who have a cookie.
    fn crowd(&mut self) {
        while self.judge("203.0.113.9:9", None).0 == Verdict::Admit {}
    }

    /// The cookie that a call from there is answered with.
    fn cookie(&mut self, from: &str) -> [u8; MAC] {
        let (Verdict::SendCookie(datagram), mac1) = self.judge(from, None) else {
            panic!("a cookie")
        };
        let Ok(Datagram::Cookie(cookie)) = Datagram::parse(&datagram) else { panic!("a cookie") };
        open_cookie(&self.own, &mac1, &cookie).unwrap()
    }
}

#[test]
fn a_cookie_is_good_for_the_address_and_port_it_was_sent_to_alone() {
    for (own, others) in [
        ("192.0.2.1:51900", ["192.0.2.1:51901", "192.0.2.2:51900", "[::ffff:192.0.2.1]:51900"]),
        ("[2001:db8::1]:700", ["[2001:db8::1]:701", "[2001:db8::2]:700", "32.1.13.184:700"]),
    ] {
        let mut gate = Gate::new();
        gate.crowd();
        let cookie = gate.cookie(own);

        assert_eq!(gate.judge(own, Some(&cookie)).0, Verdict::Admit);
        for other in others {
            let (verdict, _) = gate.judge(other, Some(&cookie));
            assert!(matches!(verdict, Verdict::SendCookie(_)), "{other}: {verdict:?}");
        }
    }
}

#[test]
fn a_cookie_is_good_until_the_secret_after_the_next() {
    let mut gate = Gate::new();
    let from = "192.0.2.1:51900";
    gate.now += COOKIE_LIFE - SECOND;
    gate.crowd();
    let cookie = gate.cookie(from);

    gate.now += SECOND * 2;
    gate.crowd();
    assert_ne!(gate.cookie(from), cookie, "there is another secret");
    assert_eq!(gate.judge(from, Some(&cookie)).0, Verdict::Admit);

    gate.now += COOKIE_LIFE;
    gate.crowd();
    let (verdict, _) = gate.judge(from, Some(&cookie));
    assert!(matches!(verdict, Verdict::SendCookie(_)), "{verdict:?}");
}

#[test]
fn a_cookie_from_before_a_long_calm_is_good_no_more() {
    let mut gate = Gate::new();
    let from = "192.0.2.1:51900";
    gate.crowd();
    let cookie = gate.cookie(from);

    // Nobody called for so long, so the secret was not renewed.
    gate.now += COOKIE_LIFE * 30;
    gate.crowd();

    let (verdict, _) = gate.judge(from, Some(&cookie));
    assert!(matches!(verdict, Verdict::SendCookie(_)), "{verdict:?}");
}

#[test]
fn who_has_called_little_is_admitted_when_others_have_called_much() {
    let mut gate = Gate::new();
    gate.crowd();
    let mut admitted = |from: &str, calls: usize| {
        let cookie = gate.cookie(from);
        (0..calls).filter(|_| gate.judge(from, Some(&cookie)).0 == Verdict::Admit).count()
    };

    // A sixteenth of the budget is for all.
    assert_eq!(admitted("192.0.2.1:51900", 1_000), 128);
    assert_eq!(admitted("192.0.2.1:51901", 10), 0, "another port is of the same address");
    assert_eq!(admitted("192.0.2.2:51900", 1), 1, "its neighbours are not put on a level with it");
    assert_eq!(admitted("[2001:db8::1]:700", 1_000), 25, "until it has called as much");
    assert_eq!(admitted("[2001:db8::2]:700", 10), 0, "so is all that one subscriber has");
    let mut of_networks = |first: usize| -> usize {
        (0..1_000).map(|it| admitted(&format!("10.{}.{}.1:1", first + it / 250, it % 250), 1)).sum()
    };
    assert_eq!(of_networks(1), 1_000);
    assert_eq!(of_networks(11), 2_048 - 1_000 - 128 - 1 - 25, "so many in all");
}

#[test]
fn each_call_without_a_cookie_is_answered_by_one() {
    let mut gate = Gate::new();
    gate.crowd();

    let said = (0..3_000).map(|_| gate.judge("203.0.113.9:9", None).0);

    assert_eq!(said.filter(|it| matches!(it, Verdict::SendCookie(_))).count(), 3_000);
}

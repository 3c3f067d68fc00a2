//! Tests the effect of hard links on uninvolved stations and clients.

use hf::s5066::sis::TerminateReason;
use hf::s5066::sis::primitive::LinkKind;

use super::band::{A, B, Band, C, MINUTE, NOBODY, OTHER, OWNER, RANKED, SECOND, address};

#[test]
fn what_a_higher_rank_sends_to_others_ends_a_hard_link_at_both_ends() {
    for (sender, is_before) in [(A, false), (B, false), (A, true), (B, true)] {
        let mut band = Band::new("2400", 3);
        if is_before {
            band.send(sender, RANKED, C, 0);
        }
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.run(MINUTE);
        band.send(sender, RANKED, C, 0);

        band.run(MINUTE * 3);

        let why = TerminateReason::HIGHER_PRIORITY;
        assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        assert_eq!(band.received[C], 1 + usize::from(is_before), "{sender}, {is_before}");
        assert_eq!(band.hard_links(), 0);
    }
}

#[test]
fn what_a_higher_rank_is_sending_to_others_when_a_hard_link_is_made_arrives() {
    for sender in [A, B] {
        let mut band = Band::new("2400", 3);
        for _ in 0..200 {
            band.send(sender, RANKED, C, 0);
        }
        band.run(SECOND * 5);
        band.establish(A, LinkKind::Shared, 0, address(B));

        band.run(MINUTE * 20);

        let why = TerminateReason::HIGHER_PRIORITY;
        assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        assert_eq!((band.received[C], band.confirmed[sender], band.hard_links()), (200, 200, 0));
    }
}

#[test]
fn what_the_same_rank_sends_to_others_waits_for_the_end_of_a_hard_link() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    band.send(A, OTHER, C, 15);
    band.send(A, RANKED, B, 0);

    band.run(MINUTE * 10);
    assert_eq!((band.received[B], band.received[C]), (1, 0));
    band.terminate(A, B);
    band.run(MINUTE * 3);

    assert_eq!(band.told(A, OWNER), ["established"]);
    assert_eq!(band.received[C], 1);
}

#[test]
fn a_call_to_nobody_leaves_the_others_their_links_and_their_turns() {
    let mut band = Band::new("2400", 3);
    band.send(A, OTHER, C, 0);
    band.run(SECOND * 30);
    let began = band.now;
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    // No link is up with B yet.
    band.send(A, OTHER, B, 0);
    for _ in 0..30 {
        band.send(A, OTHER, C, 0);
        band.run(SECOND * 2);
    }
    band.run(MINUTE * 3);

    let longest = |at| band.waits(at, began).into_iter().max().unwrap_or_default();
    assert_eq!(band.told(A, OWNER), ["rejected: remote node not responding"]);
    assert_eq!((band.received[B], band.received[C]), (1, 31));
    // B has not announced its capabilities yet, so A calls B first.
    assert!(longest(B) < SECOND * 35, "{:?}", longest(B));
    assert!(longest(C) < SECOND * 20, "{:?}", longest(C));
    assert_eq!(band.node(A).stats().links.links_broken, 0, "no link was ended for it");

    // It was lost a moment ago: it costs less now.
    let calls = band.node(A).stats().silences;
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    band.run(MINUTE);
    assert_eq!((calls, band.node(A).stats().silences), (5, 7));
}

#[test]
fn a_station_that_calls_nobody_is_there_for_others() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    band.run(SECOND * 3);
    band.send(C, OTHER, A, 0);

    band.run(MINUTE * 3);

    assert_eq!((band.received[A], band.confirmed[C]), (1, 1));
}

#[test]
fn what_others_have_begun_arrives_once_when_a_hard_link_is_made() {
    for seconds in [1, 4, 7, 12, 20] {
        for (from, to, owner, peer) in
            [(A, C, A, B), (A, B, A, B), (B, A, A, B), (B, C, A, B), (A, B, B, A)]
        {
            let case = format!("{from} to {to} beside {owner} with {peer}, {seconds} s");
            let mut band = Band::new("2400", 3);
            let sent = 60;
            for _ in 0..sent {
                band.send(from, OTHER, to, 0);
            }
            band.run(SECOND * seconds);
            band.establish(owner, LinkKind::Shared, 0, address(peer));
            band.run(MINUTE * 5);
            assert_eq!(band.told(owner, OWNER), ["established"], "{case}");
            band.terminate(owner, peer);
            band.run(MINUTE * 20);

            assert_eq!(band.rejected[from], 0, "{case}");
            assert_eq!((band.received[to], band.confirmed[from]), (sent, sent), "{case}");
        }
    }
}

#[test]
fn what_others_have_begun_arrives_once_beside_a_hard_link_on_a_noisy_channel() {
    for seed in 1..=20 {
        let mut band = Band::on("2400", 3, "ber:3e-4".parse().expect("a channel"), seed);
        let sent = 40;
        for _ in 0..sent {
            band.send(A, OTHER, C, 0);
        }
        band.run(SECOND * 5);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE * 5);
        assert_eq!(band.told(A, OWNER), ["established"], "{seed}");
        band.terminate(A, B);
        band.run(MINUTE * 40);

        assert_eq!((band.received[C], band.rejected[A]), (sent, 0), "{seed}");
    }
}

#[test]
fn a_hard_link_does_not_wait_for_all_that_waits_for_its_node() {
    let mut band = Band::new("2400", 2);
    let sent = 800;
    for _ in 0..sent {
        band.send(A, OTHER, B, 0);
    }
    band.run(SECOND * 5);
    band.establish(A, LinkKind::Shared, 0, address(B));

    band.run(MINUTE * 4);
    assert_eq!(band.told(A, OWNER), ["established"]);
    assert!(band.received[B] < sent, "most of it still waits");
    band.run(MINUTE * 40);

    assert_eq!((band.received[B], band.confirmed[A]), (sent, sent));
}

#[test]
fn three_stations_make_one_hard_link_after_the_other() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    band.establish(C, LinkKind::Shared, 0, address(B));
    band.run(MINUTE * 2);
    assert_eq!(band.told(C, OWNER), ["rejected: remote node busy"]);

    band.terminate(A, B);
    band.run(MINUTE);
    band.establish(C, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    assert_eq!(band.told(C, OWNER).last().map(String::as_str), Some("established"));

    // A link with precedence displaces the link at the called end.
    band.establish(A, LinkKind::Shared, 1, address(B));
    band.run(MINUTE * 3);
    let why = TerminateReason::HIGHER_PRIORITY;
    assert_eq!(band.told(C, OWNER).last(), Some(&format!("terminated: {why}")));
    assert_eq!(band.told(A, OWNER), ["established", "established"]);
    assert_eq!(band.hard_links(), 1);

    // And at the caller's.
    band.establish(A, LinkKind::Shared, 2, address(C));
    band.run(MINUTE * 3);
    let told = ["established".into(), format!("terminated: {why}"), "established".into()];
    assert_eq!(band.told(A, OWNER)[1..], told);
    assert_eq!(band.hard_links(), 1);
}

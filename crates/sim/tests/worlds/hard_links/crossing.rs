//! Tests two stations that ask for hard links at the same time.

use hf::s5066::sis::LinkReason;
use hf::s5066::sis::primitive::LinkKind;

use super::band::{A, B, Band, KINDS, MINUTE, OTHER, OWNER, SECOND, address};

#[test]
fn two_hosts_that_ask_at_once_get_one_hard_link() {
    for (a_kind, b_kind) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
        for (a_priority, b_priority) in [(0, 0), (1, 0), (0, 1)] {
            let case = format!("{a_kind:?} {a_priority}, {b_kind:?} {b_priority}");
            let mut band = Band::new("2400", 2);
            band.establish(A, a_kind, a_priority, address(B));
            band.establish(B, b_kind, b_priority, address(A));

            band.run(MINUTE * 3);

            // A has the lower address, so it goes first where all else is equal.
            let a_wins = (a_priority, a_kind) >= (b_priority, b_kind);
            let (winner, loser) = if a_wins { (A, B) } else { (B, A) };
            let shared = (a_kind, b_kind) == (LinkKind::Shared, LinkKind::Shared);
            let reason =
                if shared { LinkReason::TYPE_0_EXISTS } else { LinkReason::HIGHER_PRIORITY };
            assert_eq!(band.told(winner, OWNER), ["established".to_owned()], "{case}");
            assert_eq!(
                band.told(loser, OWNER).last(),
                Some(&format!("rejected: {reason}")),
                "{case}"
            );
            assert_eq!(band.hard_links(), 1, "{case}");
        }
    }
}

#[test]
fn of_two_that_ask_shortly_after_each_other_one_has_the_link_and_the_other_knows() {
    for (quarters, traffic) in (1..40).flat_map(|quarters| [0, 1, 8].map(|it| (quarters, it))) {
        for (a_kind, b_kind) in [(KINDS[0], KINDS[0]), (KINDS[1], KINDS[0]), (KINDS[0], KINDS[2])] {
            let case = format!("{a_kind:?}, {b_kind:?} after {quarters} quarters, {traffic}");
            let mut band = Band::new("2400", 2);
            for (from, to) in std::iter::repeat_n([(A, B), (B, A)], traffic).flatten() {
                band.send(from, OTHER, to, 0);
            }
            if traffic == 8 {
                band.run(SECOND * 4);
            }
            band.establish(A, a_kind, 0, address(B));
            band.run(SECOND * quarters / 4);
            band.establish(B, b_kind, 0, address(A));

            band.run(MINUTE * 5);

            let up =
                [A, B].map(|at| band.told(at, OWNER).last().is_some_and(|it| it == "established"));
            assert_eq!(band.hard_links(), 1, "{case}");
            assert_ne!(up[0], up[1], "{case}: {:?}", band.story);
        }
    }
}

#[test]
fn of_two_that_ask_at_once_one_has_the_link_on_a_noisy_channel() {
    for seed in 1..=30 {
        let mut band = Band::on("2400", 2, "ber:1e-3".parse().expect("a channel"), seed);
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.establish(B, LinkKind::Shared, 0, address(A));

        band.run(MINUTE * 20);

        assert_eq!(band.hard_links(), 1, "{seed}: {:?}", band.story);
    }
}

#[test]
fn of_two_that_ask_at_once_the_second_has_the_link_when_the_first_calls_no_client() {
    let mut band = Band::new("2400", 2);
    band.unbind(B, OTHER);
    band.establish(A, LinkKind::Exclusive, 3, address(B));
    band.establish(B, LinkKind::Shared, 0, address(A));

    band.run(MINUTE * 3);

    let why = LinkReason::SAP_NOT_BOUND;
    assert_eq!(band.told(A, OWNER), [format!("rejected: {why}")]);
    assert_eq!(band.told(B, OWNER), ["established"]);
    assert_eq!(band.hard_links(), 1);
}

#[test]
fn of_two_that_ask_at_once_one_may_go_meanwhile() {
    for quarters in 0..48 {
        for (stays, goes) in [(A, B), (B, A)] {
            let case = format!("{goes} goes after {quarters} quarters of a second");
            let mut band = Band::new("2400", 2);
            band.establish(A, LinkKind::Shared, 0, address(B));
            band.establish(B, LinkKind::Shared, 0, address(A));
            band.run(SECOND * quarters / 4);
            band.unbind(goes, OWNER);
            band.run(MINUTE * 3);

            // B asks in vain only if A's request takes precedence and reached B before A gave the request up.
            let is_up = band.hard_links() == 1;
            let told = band.told(stays, OWNER);
            assert_eq!(is_up, told == ["established"], "{case}: {told:?}");
            assert!(is_up || stays == B, "{case}: {told:?}");
            band.send(A, OTHER, B, 0);
            band.run(MINUTE);
            assert_eq!(band.received[B], 1, "{case}");
        }
    }
}

#[test]
fn a_call_for_a_hard_link_that_crosses_data_is_answered_and_the_data_has_an_outcome() {
    for quarters in 0..24 {
        let mut band = Band::new("2400", 2);
        band.send(B, OTHER, A, 0);
        band.run(SECOND * quarters / 4);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.send(B, OTHER, A, 0);

        band.run(MINUTE * 3);

        assert_eq!(band.told(A, OWNER), ["established"], "{quarters}");
        assert_eq!(band.confirmed[B] + band.rejected[B], 2, "{quarters}");
        assert!(band.received[A] <= 2 && band.received[A] >= band.confirmed[B], "{quarters}");
    }
}

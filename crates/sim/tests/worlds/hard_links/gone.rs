//! Tests hard links whose client or other end has gone.

use hf::s5066::sis::TerminateReason;
use hf::s5066::sis::primitive::LinkKind;

use super::band::{A, B, Band, C, KINDS, MINUTE, NOBODY, OTHER, OWNER, SECOND, address};

#[test]
fn a_client_that_goes_while_it_asks_leaves_no_link_behind() {
    for kind in KINDS {
        for quarters in 0..48 {
            let case = format!("{kind:?} after {quarters} quarters of a second");
            let mut band = Band::new("2400", 3);
            band.establish(A, kind, 0, address(B));
            band.run(SECOND * quarters / 4);
            band.unbind(A, OWNER);

            band.run(MINUTE * 6);
            for (from, to) in [(C, A), (C, B), (B, C), (A, C)] {
                band.send(from, OTHER, to, 0);
            }
            band.run(MINUTE * 3);

            assert_eq!(band.hard_links(), 0, "{case}");
            assert_eq!(band.received, [1, 1, 2], "{case}");
        }
    }
}

#[test]
fn a_hard_link_with_a_station_that_restarts_is_broken_and_said_to_be() {
    for (restarted, sender, receiver) in [(B, A, B), (B, B, A), (A, B, A)] {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE);
        band.restart(restarted);
        band.run(SECOND * 10);
        band.send(sender, OTHER, receiver, 0);
        band.run(MINUTE * 3);
        band.send(sender, OTHER, C, 0);
        band.run(MINUTE * 6);

        let case = format!("{restarted}, {sender} to {receiver}");
        assert_eq!((band.received[receiver], band.received[C]), (1, 1), "{case}");
        assert_eq!(band.hard_links(), 0, "{case}");
        if restarted == B {
            let why = TerminateReason::LINK_BROKEN;
            assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        }
    }
}

#[test]
fn a_hard_link_whose_other_end_is_gone_or_has_forgotten_it_keeps_nobody_waiting_without_end() {
    for (lost, is_gone) in [(A, true), (B, true), (A, false), (B, false)] {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE * 20);
        assert_eq!(band.hard_links(), 1, "it stays, however long nothing passes");
        let left = if lost == A { B } else { A };
        if is_gone {
            band.replace(lost, NOBODY);
        } else {
            band.restart(lost);
        }
        band.run(SECOND * 10);
        // Rank 0 waits for the end of the hard link.
        band.send(left, OTHER, C, 0);

        band.run(MINUTE * 12);

        assert_eq!(band.received[C], 1, "{lost} {is_gone}");
    }
}

#[test]
fn a_station_that_is_asked_by_one_that_restarts_is_there_for_others_again() {
    for quarters in 4..48 {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Exclusive, 0, address(B));
        band.run(SECOND * quarters / 4);
        band.restart(A);
        band.run(MINUTE * 40);
        if band.node(B).sis().hard_link().is_some() {
            continue;
        }
        band.send(C, OTHER, B, 0);
        band.run(MINUTE * 3);

        assert_eq!(band.received[B], 1, "{quarters}");
    }
}

#[test]
fn who_asks_over_the_link_of_a_station_that_restarted_is_told() {
    for quarters in 4..32 {
        let mut band = Band::new("2400", 2);
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.run(SECOND * quarters / 4);
        band.restart(A);
        band.run(SECOND);
        band.establish(B, LinkKind::Reserved, 1, address(A));
        band.run(MINUTE * 10);

        assert!(!band.told(B, OWNER).is_empty(), "{quarters}");
    }
}

#[test]
fn a_hard_link_follows_one_that_its_client_has_ended_a_moment_ago() {
    for first in KINDS {
        for second in KINDS {
            for tenths in [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 120] {
                let mut band = Band::new("9600/short", 2);
                band.run(SECOND);
                band.establish(A, first, 1, address(B));
                band.run(SECOND * 12);
                assert_eq!(band.told(A, OWNER), ["established"], "{first:?}");
                band.terminate(A, B);
                band.run(SECOND * tenths / 10);
                let asked = band.now;
                band.establish(A, second, 1, address(B));
                band.run(MINUTE);

                let case = format!("{second:?} {tenths} tenths of a second after {first:?}");
                let (at, ..) = band.story.last().expect("it is answered");
                // A call waits until the physical link before it is broken: 5.7 s, or at most half as much more.
                assert!(at.since(asked) < SECOND * 9, "{case}: {:?}", at.since(asked));
                assert_eq!(band.told(A, OWNER), ["established"; 2], "{case}");
            }
        }
    }
}

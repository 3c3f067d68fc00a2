//! The answer to an opening.

use proptest::prelude::*;

use crate::hfpep::answer::{Answer, NoAnswer};
use crate::hfpep::wire::MAGIC;
use crate::slep::Reason;

#[test]
fn answers_are_these_octets() {
    let refused = Answer::Refused(Reason::TARGET_REFUSED);

    assert_eq!(Answer::Accepted.octets(MAGIC), [0x50, 0, 0]);
    assert_eq!(refused.octets(MAGIC), [0x50, 1, 1]);
    for octets in [[0x51, 0, 0], [0x50, 0, 1], [0x50, 2, 0]] {
        assert_eq!(Answer::parse(MAGIC, octets), Err(NoAnswer(octets)));
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn whatever_is_read_is_written_the_same(magic: u8, octets: [u8; 3]) {
        if let Ok(answer) = Answer::parse(magic, octets) {
            prop_assert_eq!(answer.octets(magic), octets);
        }
    }
}

//! What stands in a symbol.

use proptest::prelude::*;

use crate::record::{Form, Part, Record, Records, fill_part_header, fill_record_header};

#[test]
fn records_end_at_padding_and_at_what_is_cut_off() {
    let mut symbol = vec![0; 4];
    symbol.extend_from_slice(b"first");
    fill_record_header(&mut symbol, 3);
    let whole = symbol.clone();
    symbol.extend_from_slice(&[0, 0, 0, 0, 0]);

    let first = Record { form: Form::Whole, wait: 3, start: 4, end: 9 };
    assert_eq!(Records::of(&symbol).collect::<Vec<_>>(), [first]);
    assert_eq!(Records::of(&whole).collect::<Vec<_>>(), [first]);
    assert_eq!(Records::of(&whole[..8]).count(), 0);
    assert_eq!(Records::of(&[]).count(), 0);
}

#[test]
fn records_are_what_the_layout_says() {
    let compressed = [0x80, 2, 0x81, 0x02, 7, 0xaa, 0xbb];
    let announcing = [0xc0, 1, 5, 8, 0xcc];
    let symbol = [&compressed[..], &announcing].concat();

    let records: Vec<_> = Records::of(&symbol).collect();

    assert_eq!(
        records,
        [
            Record { form: Form::Compressed(7), wait: 0x82, start: 5, end: 7 },
            Record { form: Form::Announcing(8), wait: 5, start: 11, end: 12 },
        ]
    );
}

#[test]
fn a_part_is_what_the_layout_says() {
    let mut symbol = vec![0, 0, 0, 0, 0, 0xaa, 0xbb];
    fill_part_header(&mut symbol, 1, Part { index: 2, is_last: false });
    let start = symbol.len();
    symbol.extend_from_slice(&[0, 0, 0, 0, 0, 0xcc]);
    fill_part_header(&mut symbol[start..], 1, Part { index: 3, is_last: true });

    assert_eq!(symbol, [0x40, 2, 0, 1, 0x82, 0xaa, 0xbb, 0x40, 1, 0, 1, 0x03, 0xcc]);
    let records: Vec<_> = Records::of(&symbol).collect();
    let form = |index, is_last| Form::Part(Part { index, is_last });
    assert_eq!(
        records,
        [
            Record { form: form(2, false), wait: 1, start: 5, end: 7 },
            Record { form: form(3, true), wait: 1, start: 12, end: 13 },
        ]
    );
    assert_eq!(Records::of(&symbol[..5]).count(), 0);
}

#[test]
fn what_an_older_end_cannot_read_is_longer_than_its_symbol_to_it() {
    // It takes the form for a part of the length, and so for the end.
    for form in [0x8000_u16, 0xc000] {
        assert!(usize::from(form) > crate::record::LONGEST_OUTER);
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn records_lie_in_the_symbol_one_after_the_other(
        symbol in prop::collection::vec(prop_oneof![Just(0_u8), 0_u8..9, any::<u8>()], 0..80),
    ) {
        let mut end = 0;
        for record in Records::of(&symbol) {
            prop_assert!(record.start >= end + 4 && record.end > record.start);
            prop_assert!(record.end <= symbol.len());
            end = record.end;
        }
    }
}

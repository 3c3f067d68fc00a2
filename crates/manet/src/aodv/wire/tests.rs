use proptest::prelude::*;

use super::*;

fn request() -> Request {
    Request {
        join: false,
        repair: false,
        gratuitous: true,
        destination_only: false,
        hops: 3,
        id: 0x0102_0304,
        destination: Ipv4Addr::new(10, 0, 0, 9),
        destination_sequence: None,
        originator: Ipv4Addr::new(10, 0, 0, 1),
        originator_sequence: 0xffff_fffe,
    }
}

fn reply() -> Reply {
    Reply {
        repair: false,
        acknowledge: true,
        prefix: 0,
        hops: 2,
        destination: Ipv4Addr::new(10, 0, 0, 9),
        sequence: 7,
        originator: Ipv4Addr::new(10, 0, 0, 1),
        lifetime: Duration::from_millis(6_000),
        hello_interval: None,
        internet: Some(Ipv4Addr::new(192, 0, 2, 1)),
    }
}

#[test]
fn messages_are_laid_out_as_the_rfc_draws_them() {
    let octets = |message: Message| {
        let mut out = Vec::new();
        message.emit(&mut out);
        out
    };

    #[rustfmt::skip]
    assert_eq!(octets(Message::Request(request())), [
        1, 0b0010_1000, 0, 3, 1, 2, 3, 4, 10, 0, 0, 9, 0, 0, 0, 0, 10, 0, 0, 1, 255, 255, 255, 254,
    ]);
    #[rustfmt::skip]
    assert_eq!(octets(Message::Reply(reply())), [
        2, 0b0100_0000, 0, 2, 10, 0, 0, 9, 0, 0, 0, 7, 10, 0, 0, 1, 0, 0, 0x17, 0x70,
        4, 4, 192, 0, 2, 1,
    ]);
    let errors =
        Errors { no_delete: true, unreachable: vec![(Ipv4Addr::new(10, 0, 0, 9), 0x0a0b_0c0d)] };
    assert_eq!(octets(Message::Error(errors)), [3, 0x80, 0, 1, 10, 0, 0, 9, 10, 11, 12, 13]);
    assert_eq!(octets(Message::Acknowledgement), [4, 0]);
}

#[test]
fn extensions_are_skipped_unless_they_may_not_be() {
    let with = |extension: &[u8]| {
        let mut octets = Vec::new();
        Message::Reply(Reply { internet: None, ..reply() }).emit(&mut octets);
        octets.extend_from_slice(extension);
        Message::parse(&octets)
    };
    let read = |reply: Reply, skipped| Ok((Message::Reply(reply), skipped));
    let plain = Reply { internet: None, ..reply() };
    let timed = Reply { hello_interval: Some(Duration::from_millis(1_500)), ..plain };

    assert_eq!(with(&[77, 3, 1, 2, 3]), read(plain, 0));
    assert_eq!(with(&[1, 4, 0, 0, 0x05, 0xdc, 77, 0]), read(timed, 0), "as the RFC has it");
    assert_eq!(with(&[2, 4, 0, 0, 0x05, 0xdc, 77, 0]), read(timed, 0), "as AODV-UU has it");
    assert_eq!(with(&[1, 2, 0, 0]), read(plain, 0), "AODV-UU's own type 1");
    assert_eq!(with(&[128, 0]), Err(Malformed::Extension(128)));
    for (skipped, extensions) in [
        (1, &[4, 3, 1, 2, 3][..]),
        (1, &[2, 0]),
        (1, &[77, 3, 1, 2]),
        (1, &[77]),
        (2, &[2, 3, 1, 2, 3, 4, 9]),
    ] {
        assert_eq!(with(extensions), read(plain, skipped), "{extensions:?}");
    }
    // The rest counts.
    assert_eq!(with(&[4, 0, 1, 4, 0, 0, 0x05, 0xdc, 9]), read(timed, 2));
}

#[test]
fn a_hello_interval_is_sent_as_the_rfc_has_it() {
    let mut octets = Vec::new();
    let hello_interval = Some(Duration::from_millis(1_000));

    Message::Reply(Reply { internet: None, hello_interval, ..reply() }).emit(&mut octets);

    assert_eq!(octets[20..], [1, 4, 0, 0, 0x03, 0xe8]);
}

#[test]
fn what_is_no_message_is_refused() {
    let refused = |octets: &[u8]| Message::parse(octets).unwrap_err();

    assert_eq!(refused(&[]), Malformed::Truncated { have: 0 });
    assert_eq!(refused(&[1; 23]), Malformed::Truncated { have: 23 });
    assert_eq!(refused(&[2; 19]), Malformed::Truncated { have: 19 });
    assert_eq!(refused(&[3, 0, 0, 0]), Malformed::Empty);
    assert_eq!(refused(&[3, 0, 0, 1, 0, 0, 0, 0]), Malformed::Truncated { have: 8 });
    assert_eq!(refused(&[4]), Malformed::Truncated { have: 1 });
    assert_eq!(refused(&[5, 0]), Malformed::Kind(5));
}

#[test]
fn the_end_of_an_errors_list_costs_none_of_the_others() {
    let one = Errors { no_delete: false, unreachable: vec![(Ipv4Addr::new(10, 0, 0, 9), 7)] };
    let whole = [3, 0, 0, 1, 10, 0, 0, 9, 0, 0, 0, 7, 1, 2, 3];
    let cut = [3, 0, 0, 3, 10, 0, 0, 9, 0, 0, 0, 7, 10, 0, 0];

    assert_eq!(Message::parse(&whole), Ok((Message::Error(one.clone()), 0)));
    assert_eq!(Message::parse(&cut), Ok((Message::Error(one), 2)));
}

/// Octets made from the layout of AODV-UU 0.9.6 (erimatnor/aodv-uu 18c4f37c).
#[test]
fn messages_of_aodv_uu_are_read() {
    let hello = "020000000a0900010000000a0a090001000007d0";
    let mut ack = vec![0; 50];
    ack[0] = 4;

    assert_eq!(Message::parse(&ack), Ok((Message::Acknowledgement, 0)));
    for (octets, interval) in [
        (hello.to_owned(), None),
        (format!("{hello}03080a0900020a090003"), None),
        (format!("{hello}0204000003e8"), Some(Duration::from_secs(1))),
    ] {
        let octets: Vec<u8> = octets
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let Ok((Message::Reply(read), 0)) = Message::parse(&octets) else { panic!("{octets:?}") };
        assert_eq!((read.hello_interval, read.sequence), (interval, 10));
    }
    let request = [
        &[1, 0x20, 0, 0][..],
        &2_u32.to_be_bytes(),
        &[192, 0, 2, 10],
        &[0, 0, 0, 5],
        &[10, 9, 0, 1],
    ];
    let request = [&request.concat()[..], &[0, 0, 0, 12]].concat();
    let Ok((Message::Request(read), 0)) = Message::parse(&request) else { panic!("{request:?}") };
    assert!(read.gratuitous && read.id == 2 && read.destination_sequence == Some(5));
}

fn message() -> impl Strategy<Value = Message> {
    let request = any::<([bool; 4], u8, u32, u32, Option<u32>, u32, u32)>().prop_map(
        |([join, repair, gratuitous, destination_only], hops, id, to, known, from, own)| {
            Message::Request(Request {
                join,
                repair,
                gratuitous,
                destination_only,
                hops,
                id,
                destination: to.into(),
                destination_sequence: known,
                originator: from.into(),
                originator_sequence: own,
            })
        },
    );
    let reply = (any::<([bool; 2], [u32; 4], u8)>(), 0_u8..32, any::<[Option<u32>; 2]>()).prop_map(
        |(([repair, acknowledge], [to, sequence, from, lifetime], hops), prefix, extensions)| {
            let [interval, internet] = extensions;
            Message::Reply(Reply {
                repair,
                acknowledge,
                prefix,
                hops,
                destination: to.into(),
                sequence,
                originator: from.into(),
                lifetime: Duration::from_millis(lifetime.into()),
                hello_interval: interval.map(|millis| Duration::from_millis(millis.into())),
                internet: internet.map(Ipv4Addr::from),
            })
        },
    );
    let errors = (any::<bool>(), prop::collection::vec(any::<(Ipv4Addr, u32)>(), 1..=255))
        .prop_map(|(no_delete, unreachable)| Message::Error(Errors { no_delete, unreachable }));
    prop_oneof![request, reply, errors, Just(Message::Acknowledgement)]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_was_written_is_read(message in message()) {
        let mut octets = Vec::new();
        message.emit(&mut octets);

        prop_assert_eq!(Message::parse(&octets), Ok((message, 0)));
    }

    #[test]
    fn any_octets_are_survived(kind in 0_u8..6, mut octets in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(first) = octets.first_mut() {
            *first = kind;
        }
        let Ok((message, _)) = Message::parse(&octets) else { return Ok(()) };

        let mut again = Vec::new();
        message.emit(&mut again);
        prop_assert_eq!(Message::parse(&again), Ok((message, 0)));
    }
}

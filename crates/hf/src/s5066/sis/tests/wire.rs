//! The layouts, by hand and as a round trip.

use proptest::prelude::*;

use crate::s5066::Address;
use crate::s5066::sis::primitive::{
    Arrival, Block, HardLink, LinkKind, MAX_U_PDU, Malformed, Management, Primitive,
    UnidataConfirm, UnidataIndication, UnidataRejected, UnidataRequest,
};
use crate::s5066::sis::spdu::{self, Data, EndReason, SPdu};
use crate::s5066::sis::stream::{Broken, Stream};
use crate::s5066::sis::{
    BindReason, Confirmation, Delivery, LinkReason, Mode, NodeStatus, NotDeliverable, Sap, Service,
    TerminateReason, Ttd, UnavailableReason, UnbindReason, UnidataReason,
};

const A: Address = Address::node(0x000a_141e);
const B: Address = Address::node(0x000a_141f);
const IP: Sap = Sap::IP_CLIENT;

#[test]
fn what_tshark_accepted_is_written_and_read() {
    let as_it_arrives = Service::of(Mode::Arq { in_order: false });
    let vectors = [
        (
            Primitive::BindRequest { sap: IP, rank: 5, service: as_it_arrives.into() },
            "90eb000004019516 00",
        ),
        (Primitive::BindAccepted { sap: IP, mtu: 2_048 }, "90eb00000403900800"),
        (
            Primitive::UnidataRequest(UnidataRequest {
                priority: 2,
                to_sap: IP,
                to: A,
                delivery: Service::ARQ.into(),
                ttl: 60,
                u_pdu: b"HELLO",
            }),
            "90eb0000111429e00a141e1400003c000548454c4c4f",
        ),
        (
            Primitive::UnidataIndication(UnidataIndication {
                priority: 2,
                to_sap: IP,
                to: A,
                arrival: Arrival::Arq,
                from_sap: IP,
                from: B,
                u_pdu: b"HELLO",
            }),
            "90eb0000121529e00a141e19e00a141f000548454c4c4f",
        ),
        (
            Primitive::UnidataConfirm(UnidataConfirm { to_sap: IP, to: A, u_pdu: b"HELLO" }),
            "90eb00000d1609e00a141e000548454c4c4f",
        ),
        (
            Primitive::UnidataRejected(UnidataRejected {
                reason: UnidataReason::EXPIRED,
                to_sap: IP,
                to: A,
                u_pdu: b"HELLO",
            }),
            "90eb00000d1719e00a141e000548454c4c4f",
        ),
        (Primitive::KeepAlive, "90eb00000111"),
    ];

    for (primitive, text) in vectors {
        let octets = hex(text);
        let mut out = Vec::new();
        primitive.emit(&mut out);

        assert_eq!(out, octets, "{primitive:?}");
        assert_eq!(Primitive::parse(&octets[5..]), Ok(primitive));
    }
}

#[test]
fn an_indication_names_as_many_damaged_blocks_as_fit_beside_the_u_pdu() {
    let u_pdu = vec![7; MAX_U_PDU - 4 - 3 * 4];
    let block = Block { offset: 1, len: 2 };
    let arrival = |errored, missing| Arrival::NonArqWithErrors {
        errored: vec![block; errored],
        missing: vec![block; missing],
    };
    let indication = |arrival| {
        Primitive::UnidataIndication(UnidataIndication {
            priority: 0,
            to_sap: IP,
            to: A,
            arrival,
            from_sap: IP,
            from: B,
            u_pdu: &u_pdu,
        })
    };
    let mut octets = Vec::new();
    indication(arrival(2, 9)).emit(&mut octets);

    assert_eq!(Primitive::parse(&octets[5..]), Ok(indication(arrival(2, 1))));
}

#[test]
fn the_others_are_laid_out_as_the_figures_say() {
    let link = HardLink { kind: LinkKind::Exclusive, priority: 3, remote_sap: IP, remote: A };
    let message = Management { kind: 7, body: b"go" };
    let damaged = UnidataIndication {
        priority: 0,
        to_sap: IP,
        to: Address::BROADCAST,
        arrival: Arrival::NonArqWithErrors {
            errored: vec![Block { offset: 1, len: 2 }],
            missing: Vec::new(),
        },
        from_sap: Sap::new(3),
        from: B,
        u_pdu: b"HELLO",
    };
    let expedited = UnidataRequest {
        priority: 0,
        to_sap: IP,
        to: A,
        delivery: Delivery::DEFAULT,
        ttl: 0,
        u_pdu: b"",
    };
    let status = NodeStatus::ON;
    let vectors = [
        (Primitive::UnbindRequest, "90eb00000102"),
        (Primitive::BindRejected(BindReason::SAP_IN_USE), "90eb0000020403"),
        (Primitive::UnbindIndication(UnbindReason::PREEMPTED), "90eb0000020501"),
        (Primitive::HardLinkEstablish(link), "90eb00000606b9e00a141e"),
        (Primitive::HardLinkTerminate { remote: A }, "90eb00000507e00a141e"),
        (Primitive::HardLinkEstablished { status, link }, "90eb0000070801b9e00a141e"),
        (
            Primitive::HardLinkRejected { reason: LinkReason::BUSY, link },
            "90eb0000070901b9e00a141e",
        ),
        (
            Primitive::HardLinkTerminated { reason: TerminateReason::LINK_BROKEN, link },
            "90eb0000070a05b9e00a141e",
        ),
        (Primitive::HardLinkIndication { status, link }, "90eb0000070b01b9e00a141e"),
        (Primitive::HardLinkAccept(link), "90eb0000060cb9e00a141e"),
        (
            Primitive::HardLinkReject { reason: LinkReason::NO_RESPONSE, link },
            "90eb0000070d03b9e00a141e",
        ),
        (
            Primitive::SubnetAvailability {
                status: NodeStatus::HALF_DUPLEX,
                reason: UnavailableReason::UNSPECIFIED,
            },
            "90eb0000030e0300",
        ),
        (Primitive::DataFlowOn, "90eb0000010f"),
        (Primitive::DataFlowOff, "90eb00000110"),
        (Primitive::ManagementRequest(message), "90eb0000041207676f"),
        (Primitive::ManagementIndication(message), "90eb0000041307676f"),
        (Primitive::ExpeditedUnidataRequest(expedited), "90eb00000c1809e00a141e000000000000"),
        (
            Primitive::ExpeditedUnidataIndication(damaged),
            "90eb00001a1909ffffffff33e00a141f0005 0001 00010002 0000 48454c4c4f",
        ),
        (
            Primitive::ExpeditedUnidataConfirm(UnidataConfirm { to_sap: IP, to: A, u_pdu: b"HE" }),
            "90eb00000a1a09e00a141e00024845",
        ),
        (
            Primitive::ExpeditedUnidataRejected(UnidataRejected {
                reason: UnidataReason::TOO_LARGE,
                to_sap: IP,
                to: A,
                u_pdu: b"HE",
            }),
            "90eb00000a1b49e00a141e00024845",
        ),
    ];

    for (primitive, text) in vectors {
        let octets = hex(text);
        let mut out = Vec::new();
        primitive.emit(&mut out);

        assert_eq!(out, octets, "{primitive:?}");
        assert_eq!(Primitive::parse(&octets[5..]), Ok(primitive));
    }
}

#[test]
fn s_pdus_are_laid_out_as_the_figures_say() {
    let data = Data {
        priority: 2,
        from: IP,
        to: IP,
        is_confirmed: false,
        ttd: None,
        id: None,
        u_pdu: b"HELLO",
    };
    let ttd = Some(Ttd { day: 5, half_seconds: 0x1234 });
    let [from, to] = [Sap::new(1), Sap::new(2)];
    let vectors = [
        (SPdu::Data(data), "02990048454c4c4f"),
        (SPdu::Data(Data { is_confirmed: true, ttd, ..data }), "0299c5123448454c4c4f"),
        (SPdu::Data(Data { id: Some(7), ..data }), "8299000000000748454c4c4f"),
        (SPdu::DeliveryConfirm { from, to, u_pdu: b"HE" }, "10124845"),
        (SPdu::DeliveryFail { reason: 1, from, to, u_pdu: b"HE" }, "21124845"),
        (
            SPdu::HardLinkRequest {
                kind: LinkKind::Exclusive,
                priority: 1,
                requesting: from,
                remote: to,
            },
            "3912",
        ),
        (SPdu::HardLinkConfirm, "40"),
        (SPdu::HardLinkRejected(LinkReason::SAP_NOT_BOUND), "54"),
        (SPdu::HardLinkTerminate(EndReason::CLIENT), "61"),
        (SPdu::HardLinkTerminateConfirm, "70"),
        (SPdu::CompactConfirm { from, to, id: 7 }, "901200000007"),
    ];

    for (s_pdu, text) in vectors {
        let octets = hex(text);
        let mut out = Vec::new();
        s_pdu.emit(&mut out);

        assert_eq!(out, octets, "{s_pdu:?}");
        assert_eq!(SPdu::parse(&octets), Ok(s_pdu));
    }
}

#[test]
fn short_addresses_are_read_right_aligned() {
    let parse = |address| Primitive::parse(&hex(&format!("07{address}"))).map(|it| remote(&it));

    assert_eq!(parse("20000005"), Ok(Some(Address::node(5))));
    assert_eq!(parse("700a141e"), Ok(Some(Address::group(0x000a_141e))));
    assert_eq!(parse("000a141e"), Err(Malformed::Address));
}

#[test]
fn what_is_no_primitive_is_refused() {
    let cases = [
        ("", Malformed::Truncated),
        ("00", Malformed::Type(0)),
        ("1c", Malformed::Type(28)),
        ("0195", Malformed::Truncated),
        ("0200", Malformed::Trailing { extra: 1 }),
        ("06f9e00a141e", Malformed::LinkType),
        ("1429e00a141e1400003c000648454c4c4f", Malformed::Truncated),
        ("1529e00a141e49e00a141f000548454c4c4f", Malformed::Mode(4)),
        ("1529e00a141e39e00a141f0005000100040002000048454c4c4f", Malformed::Block),
    ];

    for (text, reason) in cases {
        assert_eq!(Primitive::parse(&hex(text)), Err(reason), "{text}");
    }
}

#[test]
fn a_service_is_what_the_bits_say() {
    let service = |bits| Delivery::from_bits(bits).service();

    assert_eq!(service(0x140), Ok(Service::ARQ));
    assert_eq!(
        service(0x323),
        Ok(Service {
            mode: Mode::NonArq { in_order: false, repeats: 3 },
            confirmation: Confirmation::None,
            is_retried: false,
            takes_errors: true,
        })
    );
    assert_eq!(service(0x0ff), Err(NotDeliverable::Default));
    assert_eq!(service(0x400), Err(NotDeliverable::UndefinedMode(4)));
    assert_eq!(service(0x110), Err(NotDeliverable::Extended));
    assert_eq!(service(0x1c0), Err(NotDeliverable::UndefinedConfirmation));
    assert_eq!(service(0x240), Err(NotDeliverable::ConfirmedNonArq));
}

#[test]
fn a_stream_that_holds_no_primitive_is_broken_at_once() {
    let broken = |text| {
        let mut stream = Stream::default();
        stream.push(&hex(text));
        stream.take().map(|fields| fields.map(<[u8]>::to_vec))
    };

    assert_eq!(broken("91"), Err(Broken::Preamble(0x91, 0)));
    assert_eq!(broken("90ec"), Err(Broken::Preamble(0x90, 0xec)));
    assert_eq!(broken("90eb01"), Err(Broken::Version(1)));
    assert_eq!(broken("90eb000000"), Err(Broken::Size));
    assert_eq!(broken("90eb000001"), Ok(None));
    assert_eq!(broken("90eb00000111ff"), Ok(Some(vec![0x11])));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_primitive_is_read_back(octets in prop::collection::vec(any::<u8>(), 0..60), kind in 0_u8..30) {
        let fields: Vec<u8> = std::iter::once(kind).chain(octets).collect();
        if let Ok(primitive) = Primitive::parse(&fields) {
            let mut out = Vec::new();
            primitive.emit(&mut out);

            prop_assert_eq!(Primitive::parse(&out[5..]), Ok(primitive));
        }
    }

    #[test]
    fn a_request_is_read_back_whatever_its_fields(
        priority in 0_u8..16,
        sap in 0_u8..16,
        address in any::<u32>(),
        bits in 0_u16..0x1000,
        ttl in 0_u32..1 << 20,
        u_pdu in prop::collection::vec(any::<u8>(), 0..3_000),
    ) {
        let request = Primitive::UnidataRequest(UnidataRequest {
            priority,
            to_sap: Sap::new(sap),
            to: if address & 1 == 1 { Address::group(address) } else { Address::node(address) },
            delivery: Delivery::from_bits(bits),
            ttl,
            u_pdu: &u_pdu,
        });
        let mut out = Vec::new();
        request.emit(&mut out);

        prop_assert_eq!(Primitive::parse(&out[5..]), Ok(request));
    }

    #[test]
    fn an_s_pdu_is_read_back(octets in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(s_pdu) = SPdu::parse(&octets) {
            let mut out = Vec::new();
            s_pdu.emit(&mut out);

            prop_assert_eq!(SPdu::parse(&out), Ok(s_pdu));
            prop_assert!(out.len() <= octets.len());
        }
        prop_assert!(SPdu::parse(&octets).is_ok() || octets.len() < spdu::MAX_HEADER || octets[0] >> 4 > 9
            || octets[0] >> 4 == 3);
    }

    #[test]
    fn pieces_make_no_difference(
        bodies in prop::collection::vec(0_usize..300, 1..8),
        cuts in prop::collection::vec(1_usize..40, 1..200),
    ) {
        let mut octets = Vec::new();
        for len in &bodies {
            let body = vec![7; *len];
            Primitive::ManagementRequest(Management { kind: 1, body: &body }).emit(&mut octets);
        }
        let mut stream = Stream::default();
        let mut seen = Vec::new();
        let mut rest = &octets[..];
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            rest = after;
            stream.push(piece);
            while let Some(fields) = stream.take().unwrap() {
                seen.push(fields.len() - 2);
            }
            if rest.is_empty() {
                break;
            }
        }

        prop_assert_eq!(seen, bodies);
        prop_assert_eq!(stream.waiting(), 0);
    }
}

fn remote(primitive: &Primitive<'_>) -> Option<Address> {
    match primitive {
        Primitive::HardLinkTerminate { remote } => Some(*remote),
        _ => None,
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

//! Tests that tshark reads every STANAG 5066 frame with the meaning we intend and correct checksums.

use std::path::Path;
use std::process::Command;

use base::time::Time;
use hf::s5066::Address;
use hf::s5066::dts::wire::{
    Ack, Body, Capabilities, CpduSegment, Data, Datagram, Eow, Expedited, Extensions, Frame, Fsn,
    Header, Management, Numbers, RateRequest, Reason, Reset, Response,
};
use sim::capture::{Capture, Direction, LinkType};

/// A field of tshark's, without the prefix, and its value.
type Field = (&'static str, &'static str);

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_every_frame_with_its_fields_and_right_check_sums() {
    let file = std::env::temp_dir().join(format!("trackway-s5066-{}.pcapng", std::process::id()));
    let frames = frames();
    let mut capture = Capture::create(&file).unwrap();
    let interface = capture.add_interface("modem", LinkType::DPdu);
    for (at, (frame, _)) in (0..).zip(&frames) {
        let mut octets = Vec::new();
        frame.emit(&mut octets);
        assert!(octets.len() >= 15, "tshark reads no shorter one");
        capture.write(Time::from_nanos(at), interface, Direction::Out, &octets);
    }
    capture.finish().unwrap();

    let all = tshark(&file, &["-V"]);
    let mut names: Vec<&str> =
        frames.iter().flat_map(|(_, fields)| fields).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let mut options =
        vec!["-T".to_owned(), "fields".to_owned(), "-E".to_owned(), "separator=|".to_owned()];
    for name in ["type", "eot", "dest_addr", "src_addr"].iter().chain(&names) {
        options.extend(["-e".to_owned(), format!("s5066dts.{name}")]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let table = tshark(&file, &options);
    std::fs::remove_file(&file).unwrap();

    let sums =
        frames.len() + frames.iter().filter(|(frame, _)| frame.body.segment().is_some()).count();
    assert_eq!(all.matches("(Correct)").count(), sums);
    for complaint in ["Incorrect", "Malformed", "Unknown D_PDU"] {
        assert!(!all.contains(complaint), "{complaint}");
    }
    assert_eq!(table.lines().count(), frames.len());
    for (line, (frame, fields)) in table.lines().zip(&frames) {
        let values: Vec<&str> = line.split('|').collect();
        let header = [
            frame.kind().to_string(),
            frame.header.eot.to_string(),
            frame.header.to.value().to_string(),
            frame.header.from.value().to_string(),
        ];
        assert_eq!(values[..4], header, "{line}");
        for (name, expected) in fields {
            let column = 4 + names.iter().position(|other| other == name).unwrap();
            assert_eq!(values[column], *expected, "{name} of {frame:?}");
        }
    }
}

fn frames() -> Vec<(Frame<'static>, Vec<Field>)> {
    let data = Data {
        fsn: Fsn(17),
        is_start: true,
        is_end: false,
        in_order: true,
        is_drop: false,
        at_upper_edge: true,
        at_lower_edge: false,
        segment: CpduSegment::new(&[0x5a; 300]),
    };
    let second = Data {
        fsn: Fsn(255),
        is_start: false,
        is_end: true,
        in_order: false,
        is_drop: true,
        at_upper_edge: false,
        at_lower_edge: true,
        segment: CpduSegment::new(&[]),
    };
    let ack = Ack { lwe: Fsn(200), bitmap: &[0x05, 0x80] };
    let numbers = Numbers::Short;
    let expedited = Expedited {
        is_start: true,
        is_end: true,
        id: 13,
        fsn: 9,
        segment: CpduSegment::new(&[1, 2, 3]),
    };
    let datagram = Datagram {
        is_expedited: false,
        id: 0xabc,
        in_order: true,
        size: 4000,
        offset: 3000,
        window: 600,
        segment: CpduSegment::new(&[7; 1000]),
    };
    let reset = Reset { is_full: true, id: 77, ..Reset::default() };
    let resync =
        Reset { is_rx_command: true, is_ack: true, lwe: Fsn(99), id: 3, ..Reset::default() };
    // 64,000 bit/s, and an interleaver of 480 hundredths of a second.
    let high_rate: &[u8] = &[0, 0, 0xfa, 0x00, 0x01, 0xe0];
    let request = RateRequest { rate: 11, interleaver: 1, is_advice: true, is_tied: false };
    let refusal = Eow::RateResponse { response: Response::Refuse, reason: 3 };
    let capabilities = Capabilities::HIGH_RATE.with(Capabilities::RATE_CHANGE);
    let high_rate_request = Eow::HighRateRequest { waveform: 3, channels: 1 };
    let profiles = Extensions::PADDING.with(Extensions::LONG_NUMBERS);
    let message = |is_valid, extended| {
        Body::Management(Management { is_valid, is_ack: !is_valid, id: 42, extended })
    };

    let mut frames = vec![
        (
            7,
            Eow::None,
            Body::Data { numbers, data, ack: None },
            vec![
                ("data_only.cpdu_start", "1"),
                ("data_only.cpdu_end", "0"),
                ("data_only.deliver_in_order", "1"),
                ("data_only.drop_cpdu", "0"),
                ("data_only.tx_win_uwe", "1"),
                ("data_only.tx_win_lwe", "0"),
                ("data_only.segmented_cpdu_size", "300"),
                ("data_only.transmit_sequence_number", "17"),
            ],
        ),
        (
            2,
            Eow::RateRequest(request),
            Body::Data { numbers, data: second, ack: None },
            vec![
                ("eow.drc_request.data_rate", "11"),
                ("eow.drc_request.interleaving", "1"),
                ("eow.drc_request.others", "2"),
                ("data_only.cpdu_end", "1"),
                ("data_only.drop_cpdu", "1"),
                ("data_only.tx_win_lwe", "1"),
                ("data_only.segmented_cpdu_size", "0"),
                ("data_only.transmit_sequence_number", "255"),
            ],
        ),
        (
            7,
            refusal,
            Body::Ack { is_expedited: false, ack },
            vec![
                ("eow.drc_response.response", "1"),
                ("eow.drc_response.reason", "3"),
                ("ack_only.rx_lwe", "200"),
                ("ack_only.acks", "0580"),
            ],
        ),
        (
            5,
            Eow::Capabilities(capabilities),
            Body::Data { numbers, data: second, ack: Some(ack) },
            vec![
                ("eow.capability.adaptive", "1"),
                ("eow.capability.extended", "1"),
                ("eow.capability.full_duplex", "0"),
                ("data_ack.cpdu_end", "1"),
                ("data_ack.drop_cpdu", "1"),
                ("data_ack.transmit_sequence_number", "255"),
                ("data_ack.rx_lwe", "200"),
                ("data_ack.acks", "0580"),
            ],
        ),
        (
            7,
            Eow::Unrecognised { kind: 9 },
            Body::Reset { numbers, reset },
            vec![
                ("eow.unrec_type.reason", "9"),
                ("reset_win_resync.full_reset", "1"),
                ("reset_win_resync.reset_ack", "0"),
                ("reset_win_resync.reset_frame_id", "77"),
            ],
        ),
        (
            7,
            Eow::None,
            Body::Reset { numbers, reset: resync },
            vec![
                ("reset_win_resync.full_reset", "0"),
                ("reset_win_resync.reset_rx_win", "1"),
                ("reset_win_resync.reset_ack", "1"),
                ("reset_win_resync.new_rx_lwe", "99"),
            ],
        ),
        (
            5,
            Eow::None,
            Body::Expedited(expedited),
            vec![
                ("exp_data_only.cpdu_start", "1"),
                ("exp_data_only.cpdu_id", "13"),
                ("exp_data_only.segmented_cpdu_size", "3"),
                ("exp_data_only.transmit_sequence_number", "9"),
            ],
        ),
        (
            7,
            Eow::None,
            Body::Ack { is_expedited: true, ack },
            vec![("exp_ack_only.rx_lwe", "200"), ("exp_ack_only.acks", "0580")],
        ),
        (
            7,
            high_rate_request,
            message(true, Some(high_rate)),
            vec![
                ("management.extended_message_flag", "1"),
                ("management.message", "1"),
                ("management.ack", "0"),
                ("management.management_frame_id", "42"),
                ("eow.hdr_drc_request.waveform", "3"),
                ("eow.hdr_drc_request.num_channels", "1"),
            ],
        ),
        (
            7,
            Eow::Extensions(profiles),
            message(false, None),
            vec![
                ("eow.type", "15"),
                ("management.extended_message_flag", "0"),
                ("management.ack", "1"),
            ],
        ),
        (
            7,
            Eow::None,
            Body::Datagram(datagram),
            vec![
                ("non_arq_data.cpdu_id_1", "10"),
                ("non_arq_data.cpdu_id_2", "188"),
                ("non_arq_data.deliver_in_order", "1"),
                ("non_arq_data.group_address", "1"),
                ("non_arq_data.segmented_cpdu_size", "1000"),
                ("non_arq_data.cpdu_size", "4000"),
                ("non_arq_data.cpdu_segment_offset", "3000"),
                ("non_arq_data.cpdu_reception_window", "600"),
            ],
        ),
        (
            2,
            Eow::None,
            Body::Datagram(Datagram { is_expedited: true, in_order: false, ..datagram }),
            vec![
                ("exp_non_arq_data.cpdu_id_1", "10"),
                ("exp_non_arq_data.cpdu_id_2", "188"),
                ("exp_non_arq_data.deliver_in_order", "0"),
                ("exp_non_arq_data.group_address", "0"),
                ("exp_non_arq_data.cpdu_segment_offset", "3000"),
            ],
        ),
        (
            7,
            Eow::None,
            Body::Warning { received: 4, reason: Reason::NotConnected },
            vec![("warning.frame_type", "4"), ("warning.reason", "1")],
        ),
    ];
    (0..)
        .zip(frames.drain(..))
        .map(|(index, (address_size, eow, body, mut fields))| {
            let digits = (1 << (4 * u32::from(address_size)).min(28)) - 1;
            let is_group = fields.contains(&("non_arq_data.group_address", "1"));
            let to = 0x000a_141e & digits;
            let to = if is_group { Address::group(to) } else { Address::node(to) };
            let from = Address::node(0x0fed_cba9 & digits);
            fields.push((
                "address.size",
                match address_size {
                    2 => "2",
                    5 => "5",
                    _ => "7",
                },
            ));
            (
                Frame { header: Header { eow, eot: 10 + index, to, from, address_size }, body },
                fields,
            )
        })
        .collect()
}

fn tshark(file: &Path, options: &[&str]) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(options)
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}

//! What is coded and decoded.

use proptest::prelude::*;

use super::*;

/// What programs say in one go.
const SAMPLES: [(&str, &str); 6] = [
    (
        "request of a browser",
        "GET /licences/apache-2.0.txt HTTP/1.1\nHost: www.example.org\nUser-Agent: Mozilla/5.0 (X11; Linux \
         x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\nAccept: text/html,application/xhtml+xml,\
         application/xml;q=0.9,*/*;q=0.8\nAccept-Language: en-US,en;q=0.5\nAccept-Encoding: identity\n\
         Connection: keep-alive\n\n",
    ),
    (
        "request of curl",
        "GET /status?id=44 HTTP/1.1\nHost: 10.2.0.1:8000\nUser-Agent: curl/7.88.1\nAccept: */*\n\n",
    ),
    (
        "head of an answer",
        "HTTP/1.1 200 OK\nDate: Sun, 22 Nov 2026 12:00:00 GMT\nServer: Apache\nLast-Modified: Fri, 06 Sep \
         2024 08:00:00 GMT\nContent-Type: text/plain; charset=utf-8\nContent-Length: 10000\n\n",
    ),
    (
        "JSON",
        "{\"id\":17,\"unit\":\"B Company\",\"latitude\":51.50735,\"longitude\":-0.12776,\"status\":\
         \"moving\",\"speed\":12.5,\"timestamp\":\"2026-11-22T14:03:11Z\"}",
    ),
    (
        "event of a TAK client",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<event version=\"2.0\" uid=\"pytak-44ab\" \
         type=\"a-f-G-E-S\" how=\"m-g\" time=\"2026-11-22T12:00:00.000000Z\" start=\
         \"2026-11-22T12:00:00.000000Z\" stale=\"2026-11-22T12:05:00.000000Z\"><point lat=\"52.1\" \
         lon=\"4.3\" hae=\"10.0\" ce=\"9999999.0\" le=\"9999999.0\"/><detail><contact \
         callsign=\"ALPHA1\"/><remarks>on the bridge</remarks></detail></event>",
    ),
    (
        "mail",
        "EHLO mail.example.org\nMAIL FROM:<a@example.org> SIZE=1000\nRCPT TO:<b@example.net>\nDATA\n",
    ),
];

/// All parts of some writes, and what they are at the other end.
fn through(coding: Coding, writes: &[Vec<u8>], room: usize, most: usize) -> (usize, Vec<u8>) {
    let (mut coder, mut decoder) = (Coder::new(), Decoder::new(coding));
    coder.offer(coding);
    let (mut unsent, mut out, mut sent) = (VecDeque::new(), Vec::new(), 0);
    let mut spares = Spares::default();
    for octets in writes {
        unsent.extend(octets);
        while !unsent.is_empty() || coder.pending() > 0 {
            let (data, is_coded) = coder.cut(&mut unsent, room, true, &mut spares);
            assert!(data.len() <= room);
            sent += data.len();
            if !is_coded {
                out.extend_from_slice(&data);
                continue;
            }
            let (its, data) = Decoder::open(&data).unwrap();
            assert_eq!(its, coding);
            let mut taken = 0;
            loop {
                let (some, is_all) = decoder.decode(&data[taken..], &mut out, most).unwrap();
                taken += some;
                if is_all {
                    break;
                }
            }
        }
    }
    (sent, out)
}

#[test]
fn text_shrinks_and_noise_hardly_grows() {
    let text = "a line that comes again and again\n".repeat(4_000).into_bytes();
    let mut rng = base::rng::Rng::stream(1, "noise");
    let noise: Vec<u8> = (0..100_000).map(|_| rng.bits().to_le_bytes()[0]).collect();

    let plain = |octets| through(Coding::Plain, std::slice::from_ref(octets), 2_000, 999);
    let ((of_text, text_out), (of_noise, noise_out)) = (plain(&text), plain(&noise));

    assert!(text_out == text && noise_out == noise);
    assert!(of_text < text.len() / 20, "{of_text}");
    assert_eq!(of_noise, noise.len());
}

#[test]
fn a_part_is_filled_however_much_is_coded_at_a_time() {
    let mut rng = base::rng::Rng::stream(1, "digits");
    let digits: Vec<u8> = (0..100_000).map(|_| b'0' + rng.bits().to_le_bytes()[0] % 10).collect();
    let (mut coder, mut unsent) = (Coder::new(), VecDeque::from(digits.clone()));
    let (data, _) = coder.cut(&mut unsent, 2, true, &mut Spares::default());
    let coded = data.len() - 1 + coder.pending();
    assert!(coded > 2 && !unsent.is_empty());

    for room in coded - 5..coded + 5 {
        assert!(through(Coding::Plain, std::slice::from_ref(&digits), room, 9_999).1 == digits);
    }
}

#[test]
fn little_comes_out_of_much_only_as_it_is_read() {
    let (mut coder, mut decoder) = (Coder::new(), Decoder::new(Coding::Plain));
    let mut unsent = VecDeque::from(vec![7; 1 << 20]);
    let (data, is_coded) = coder.cut(&mut unsent, 2_000, true, &mut Spares::default());
    let (_, data) = Decoder::open(&data).unwrap();
    let mut out = Vec::new();

    assert!(is_coded && !decoder.decode(&data, &mut out, 10).unwrap().1);

    assert_eq!(out, [7; 10]);
}

/// An event as situational awareness programs send it.
const EVENT: &str = "<event version='2.0' uid='ANDROID-589520ccfcd20f01' type='a-f-G-U-C' \
     time='2026-03-01T12:00:00Z' start='2026-03-01T12:00:00Z' stale='2026-03-01T12:06:15Z' \
     how='m-g'><point lat='59.3293' lon='18.0686' hae='28.4' ce='9.9' le='9999999.0'/><detail>\
     <contact callsign='HAMMER' endpoint='*:-1:stcp'/><__group name='Cyan' role='Team Member'/>\
     <track speed='0.0' course='173.9'/><status battery='78'/></detail></event>";

#[test]
fn a_datagram_shrinks_or_stays_as_it_is() {
    let mut rng = base::rng::Rng::stream(1, "noise");
    let noise: Vec<u8> = (0..300).map(|_| rng.bits().to_le_bytes()[0]).collect();

    let event = deflate(EVENT.as_bytes()).unwrap();

    assert_eq!((EVENT.len(), event.len()), (408, 283));
    assert_eq!(inflate(&event, EVENT.len()).as_deref(), Some(EVENT.as_bytes()));
    for data in [&b""[..], b"a", b"query", &noise] {
        assert_eq!(deflate(data), None, "{data:?}");
    }
}

#[test]
fn a_datagram_that_swells_is_given_up_where_it_does() {
    let bomb = deflate(&vec![0; 1 << 24]).unwrap();

    assert!(bomb.len() < 20_000, "{}", bomb.len());
    assert_eq!(inflate(&bomb, 64 << 10), None);
    let largest = deflate(&vec![0; 64 << 10]).unwrap();
    assert_eq!(inflate(&largest, 64 << 10).map(|it| it.len()), Some(64 << 10));
    assert_eq!(inflate(&largest, (64 << 10) - 1), None);
    // Cut, and with something behind.
    assert_eq!(inflate(&largest[..largest.len() - 1], 64 << 10), None);
    assert_eq!(inflate(&[&largest[..], &[0]].concat(), 64 << 10), None);
}

#[test]
fn a_state_that_was_another_s_codes_as_a_new_one_does() {
    let (mut spares, mut fresh) = (Spares::default(), Spares::default());
    let cut = |text: &str, spares: &mut Spares| {
        let (mut coder, mut unsent) = (Coder::new(), VecDeque::from(text.repeat(99).into_bytes()));
        let coded = coder.cut(&mut unsent, 900, true, spares);
        coder.end(spares);
        coded
    };

    cut("what somebody else says, of whom nobody else may know\n", &mut spares);
    assert_eq!((spares.coders.len(), spares.judge.is_some()), (1, true));
    let after = cut("a line that comes again and again\n", &mut spares);

    assert!(after.1 && after == cut("a line that comes again and again\n", &mut fresh));
    assert_eq!(spares.coders.len(), 1);
}

#[test]
fn the_dictionary_is_the_one_that_others_have() {
    let crc = base::crc::segment(&DICTIONARY);
    assert_eq!((DICTIONARY.len(), crc), (4_874, 0x8822_9424));
    assert!(DICTIONARY.len() < 32 << 10, "DEFLATE points back so far");
}

#[test]
fn small_exchanges_shrink_much_more_with_the_dictionary() {
    let octets = SAMPLES.map(|(name, text)| {
        let text = text.replace('\n', "\r\n").into_bytes();
        let of = |coding| through(coding, std::slice::from_ref(&text), 2_000, 999);
        let [plain, with] = [Coding::Plain, Coding::WithDictionary].map(of);
        assert!(plain.1 == text && with.1 == text);
        (name, text.len(), plain.0, with.0)
    });

    let expected = [
        ("request of a browser", 305, 236, 64),
        ("request of curl", 89, 89, 38),
        ("head of an answer", 182, 149, 57),
        ("JSON", 135, 135, 88),
        ("event of a TAK client", 367, 234, 102),
        ("mail", 91, 91, 51),
    ];
    assert_eq!(octets, expected);
}

#[test]
fn a_coder_that_rests_or_is_resumed_goes_on_where_its_direction_is() {
    for is_resumed in [false, true] {
        let (mut coder, mut decoder) = (Coder::new(), Decoder::new(Coding::WithDictionary));
        coder.offer(Coding::WithDictionary);
        let (mut spares, mut out, mut said) = (Spares::default(), Vec::new(), Vec::new());
        for (_, text) in SAMPLES.iter().cycle().take(40) {
            said.extend_from_slice(text.as_bytes());
            let mut unsent = VecDeque::from(text.as_bytes().to_vec());
            let (data, is_coded) = coder.cut(&mut unsent, 2_000, true, &mut spares);
            if is_coded {
                let (_, data) = Decoder::open(&data).unwrap();
                assert_eq!(decoder.decode(&data, &mut out, 9_999), Ok((data.len(), true)));
            } else {
                out.extend_from_slice(&data);
            }
            match coder.begun() {
                Some(coding) if is_resumed => coder = Coder::resumed(coding),
                _ => assert!(coder.rest(&mut spares)),
            }
            coder.offer(Coding::Plain);
        }
        assert!(coder.begun().is_some() && out == said);
    }
}

#[test]
fn what_is_no_such_stream_is_refused() {
    assert_eq!(Decoder::open(&[]), Err(Undecodable));
    assert_eq!(Decoder::open(&[3, 0]), Err(Undecodable));
    let (coding, ended) = Decoder::open(&[0x81, 3, 0]).unwrap();
    assert_eq!(Decoder::new(coding).decode(&ended, &mut Vec::new(), 100), Err(Undecodable));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_is_written_is_read(
        writes in prop::collection::vec(
            (any::<u8>(), 1_u8..40, 0_usize..9_000).prop_map(|(first, step, len)| {
                (0..len).map(|at| first.wrapping_mul(step).wrapping_add((at / 7 * at % usize::from(step)).to_le_bytes()[0])).collect()
            }),
            0..12,
        ),
        coding in prop::sample::select(vec![Coding::Plain, Coding::WithDictionary]),
        room in 2_usize..3_000,
        most in 1_usize..5_000,
    ) {
        let (_, out) = through(coding, &writes, room, most);
        prop_assert_eq!(out, writes.concat());
    }

    #[test]
    fn a_datagram_is_never_longer_and_comes_back(
        data in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..600),
            prop::collection::vec(0..4_u8, 0..2_100),
        ],
        stray in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Some(coded) = deflate(&data) {
            prop_assert!(coded.len() < data.len());
            prop_assert_eq!(inflate(&coded, data.len()), Some(data));
        }
        if let Some(out) = inflate(&stray, 1_000) {
            prop_assert!(out.len() <= 1_000);
        }
    }

    #[test]
    fn any_octets_are_survived(data in prop::collection::vec(any::<u8>(), 0..200)) {
        for number in [1, 2] {
            let data = [&[number], &data[..]].concat();
            let (coding, data) = Decoder::open(&data).unwrap();
            let mut out = Vec::new();
            let _ = Decoder::new(coding).decode(&data, &mut out, 10_000);
            prop_assert!(out.len() <= 10_000);
        }
    }
}

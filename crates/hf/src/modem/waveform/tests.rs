use super::*;

#[test]
fn the_slow_rates_have_the_blocks_of_the_standard() {
    let blocks = [(75, 45, 360), (150, 90, 720), (300, 180, 1_440), (600, 360, 2_880)];
    let faster = [(1_200, 720, 5_760), (2_400, 1_440, 11_520)];
    for (rate, short, long) in blocks.into_iter().chain(faster) {
        let [short_block, long_block] = [Interleaver::Short, Interleaver::Long]
            .map(|interleaver| Waveform::new(Family::Stanag4539, rate, interleaver).unwrap());

        assert_eq!((short_block.block_bits(), short_block.block_time()), (short, ms(600)));
        assert_eq!((long_block.block_bits(), long_block.block_time()), (long, ms(4_800)));
        assert_eq!((short_block.preamble(), long_block.preamble()), (ms(600), ms(4_800)));
        assert_eq!(short_block.end_bits(), 32 + 144);
    }
}

#[test]
fn the_fast_rates_have_the_blocks_of_the_standard() {
    // 256 data symbols a frame, 2 to 6 bits a symbol, code rate 3/4.
    for (rate, bits_a_symbol) in [(3_200, 2), (4_800, 3), (6_400, 4), (8_000, 5), (9_600, 6)] {
        let frames = [1, 3, 9, 18, 36, 72];
        for (interleaver, frames) in Interleaver::ALL.into_iter().zip(frames) {
            let waveform = Waveform::new(Family::Stanag4539, rate, interleaver).unwrap();

            assert_eq!(waveform.block_bits(), 256 * bits_a_symbol * 3 / 4 * frames);
            assert_eq!(waveform.block_time(), ms(120 * u64::from(frames)));
            assert_eq!(waveform.preamble(), Duration::from_nanos(119_583_333));
            assert_eq!(waveform.end_bits(), 32);
        }
    }
    let short: Waveform = "9600/short".parse().unwrap();
    assert_eq!((short.block_bits(), short.block_time()), (10_368, ms(1_080)));
}

#[test]
fn wideband_has_the_frames_of_the_standard() {
    // Tables D-II, D-XI, D-XII and D-XLIX, 48 kHz: data and known symbols of a frame at 38,400 Bd,
    // bits a symbol, code rate.
    let rows = [
        (2_400, 512, 512, 1, (1, 8)),
        (4_800, 512, 512, 1, (1, 4)),
        (9_600, 512, 512, 1, (1, 2)),
        (16_000, 2_560, 512, 1, (1, 2)),
        (24_000, 2_560, 512, 1, (3, 4)),
        (48_000, 2_560, 512, 2, (3, 4)),
        (72_000, 2_560, 512, 3, (3, 4)),
        (96_000, 2_560, 512, 4, (3, 4)),
        (120_000, 2_560, 512, 5, (3, 4)),
        (144_000, 2_560, 512, 6, (3, 4)),
        (192_000, 2_880, 192, 6, (8, 9)),
        (240_000, 2_880, 192, 8, (5, 6)),
    ];
    for (rate, data, known, bits_a_symbol, (k, n)) in rows {
        let waveform = Waveform::new(Family::Wideband48, rate, Interleaver::Short).unwrap();
        let frames = 38_400 * 480 / 1_000 / (data + known);

        assert_eq!(waveform.block_time(), ms(480));
        assert_eq!(waveform.block_bits(), data * bits_a_symbol * k / n * frames, "{rate}");
    }
    let fastest: Waveform = "240000".parse().unwrap();
    assert_eq!(fastest.block_bits(), 6 * 19_200);
    assert_eq!(fastest.preamble(), Duration::from_nanos(133_333_333));
}

#[test]
fn a_block_is_whole_octets_or_its_rate_times_its_time() {
    for waveform in Family::ALL.into_iter().flat_map(Waveform::all) {
        let bits = u128::from(waveform.bits_per_s()) * waveform.block_time().as_millis();

        assert_eq!(bits % 1_000, 0, "{waveform}");
        assert_eq!(u128::from(waveform.block_bits()), bits / 1_000, "{waveform}");
    }
}

#[test]
fn a_transmission_is_a_preamble_and_whole_blocks() {
    let waveform: Waveform = "9600/short".parse().unwrap();

    assert_eq!(waveform.octets(1), 1_292);
    assert_eq!((waveform.blocks(0), waveform.blocks(1_292), waveform.blocks(1_293)), (1, 1, 2));
    assert_eq!(waveform.air_time(1_293), waveform.preamble() + ms(2_160));
    // The end of message and the flush alone are longer than four blocks at 75 bit/s.
    let slowest: Waveform = "75/short".parse().unwrap();
    assert_eq!((slowest.blocks(0), slowest.octets(3), slowest.octets(4)), (4, 0, 0));
    assert_eq!(slowest.octets(5), 6);
}

#[test]
fn what_is_written_is_read_back() {
    for waveform in Family::ALL.into_iter().flat_map(Waveform::all) {
        assert_eq!(waveform.to_string().parse(), Ok(waveform));
    }
    let names = ["9600", "4539/9600/long", "240000", "wideband/9600"]
        .map(|text| text.parse::<Waveform>().unwrap().to_string());
    assert_eq!(names, ["9600/short", "9600/long", "240000/short", "wideband/9600/short"]);
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let refusal = |text: &str| text.parse::<Waveform>().unwrap_err().to_string();

    assert_eq!(
        refusal("9601"),
        "no 9601 bit/s in 4539, only 75, 150, 300, 600, 1200, 2400, 3200, 4800, 6400, 8000 or 9600"
    );
    assert_eq!(refusal("2400/medium"), "no 2400 bit/s with medium interleaver, only short or long");
    assert!(refusal("wideband/75").starts_with("no 75 bit/s in wideband, only 1200, 2400,"));
    for text in ["", "/", "fast", "+75", "9600/", "9600/short/", "4539/", "wideband/", "9600/x"] {
        assert!(text.parse::<Waveform>().is_err(), "{text}");
    }
}

#[test]
fn steps_keep_the_interleaver_where_they_can() {
    let step = |text: &str, up: bool| {
        let waveform: Waveform = text.parse().unwrap();
        let next = if up { waveform.faster() } else { waveform.slower() };
        next.map(|next| next.to_string())
    };

    assert_eq!(step("9600/long", false).as_deref(), Some("8000/long"));
    assert_eq!(step("3200/very-long", false).as_deref(), Some("2400/long"));
    assert_eq!(step("3200/ultra-short", false).as_deref(), Some("2400/short"));
    assert_eq!(step("2400/short", true).as_deref(), Some("3200/short"));
    assert_eq!((step("9600", true), step("75", false)), (None, None));
}

#[test]
fn codes_of_data_rate_changes_are_those_of_annex_c() {
    let code = |text: &str| text.parse::<Waveform>().unwrap().rate_code();

    assert_eq!([code("75"), code("2400"), code("4800"), code("9600")], [0, 5, 8, 11].map(Some));
    assert_eq!(code("240000"), None);
    for waveform in Waveform::all(Family::Stanag4539) {
        let codes = waveform.rate_code().zip(waveform.interleaver_code());
        let named = codes.and_then(|(rate, interleaver)| Waveform::of_codes(rate, interleaver));
        assert_eq!(named, codes.map(|_| waveform));
    }
    // 3,600 bit/s has a code and no waveform here; so has no interleaver at all.
    assert_eq!((Waveform::of_codes(7, 1), Waveform::of_codes(5, 0)), (None, None));
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

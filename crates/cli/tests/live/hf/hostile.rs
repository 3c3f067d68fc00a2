//! Tests that hostile clients do not disturb other clients.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::sis::{self, unidata};
use super::{B, Net, SOON};

#[test]
#[ignore = "needs root: run by ./test"]
fn bad_input_is_answered_or_closed_and_others_go_on() {
    let mut net = Net::with_radio("--speed 240000 --seed 4");
    let (mut good, mut far) = (net.bind(0, 3), net.bind(1, 3));

    let mut bad_preamble = net.connect(0);
    bad_preamble.write(b"GET / HTTP/1.0\r\n\r\n");
    let mut nothing_inside = net.connect(0);
    nothing_inside.write(&[0x90, 0xeb, 0, 0, 0, 1]);
    let mut wrong_version = net.connect(0);
    wrong_version.write(&[0x90, 0xeb, 9, 0, 1, 17]);
    // The size says more than the primitive has, again and again.
    let mut wrong_sizes = net.connect(0);
    for _ in 0..100 {
        let _ = wrong_sizes.stream.write(&sis::envelope(1, &[0x40; 30]));
    }
    // A request without a binding.
    let mut unbound = net.connect(0);
    for _ in 0..100 {
        let _ = unbound.stream.write(&unidata(0, B, 3, b"stray"));
    }
    // Half a primitive, for ever.
    let mut half = net.connect(0);
    half.write(&[0x90, 0xeb, 0, 0xff, 0xff, 20, 1, 2, 3]);
    // Longer than the MTU: refused with a reason.
    let mut oversize = net.bind(0, 4);
    oversize.send(B, 3, &[1; 3_000]);
    let refusal = oversize.expect(23);

    good.send(B, 3, b"still here");
    assert_eq!(far.receive(), b"still here");
    assert_eq!(refusal.body[0] >> 4, 4, "{refusal:?}");
    for (name, client) in [
        ("bad preamble", &mut bad_preamble),
        ("nothing inside", &mut nothing_inside),
        ("wrong version", &mut wrong_version),
        ("wrong sizes", &mut wrong_sizes),
        ("unbound", &mut unbound),
    ] {
        assert!(client.is_closed_within(SOON), "{name}");
    }
    assert!(!half.is_closed_within(Duration::from_millis(200)), "it may still go on");
    let summary = net.summary();
    assert!(summary["a"]["connections_closed"].as_u64() >= Some(5), "{summary}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn floods_and_those_who_do_not_read_disturb_nobody() {
    let mut net = Net::with_radio("--speed 240000 --seed 5");
    let (mut good, mut far) = (net.bind(0, 3), net.bind(1, 3));
    let mut floods: Vec<_> = (8..12).map(|sap| net.bind(0, sap)).collect();
    let _listener = net.bind(1, 8);
    let is_over = AtomicBool::new(false);

    thread::scope(|scope| {
        for (number, flood) in floods.iter_mut().enumerate() {
            let is_over = &is_over;
            // Two send requests, two what is none; nobody reads.
            let piece = if number < 2 { unidata(0, B, 8, &[0; 2_000]) } else { vec![0x90; 4_096] };
            flood.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if flood.stream.write(&piece).is_err_and(|error| {
                        error.kind() == std::io::ErrorKind::BrokenPipe
                            || error.kind() == std::io::ErrorKind::ConnectionReset
                    }) {
                        return;
                    }
                }
            });
        }
        let began = Instant::now();
        for number in 0..10_u8 {
            // Among equals the radio's time is shared; this is more urgent.
            good.write(&unidata(1, B, 3, &[number; 100]));
        }
        let mut arrived: Vec<_> = (0..10).map(|_| far.receive()).collect();
        is_over.store(true, Ordering::Relaxed);

        arrived.sort();
        assert_eq!(arrived.len(), 10);
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    });
    // Its memory is bounded whatever came.
    let pid = net.radio().pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak < 200_000, "{peak} kB");
    net.summary();
}

//! Single exchanges, to the microsecond.

use super::*;

#[test]
fn the_timing_table_of_the_wavelan_card_holds_to_the_microsecond() {
    let at = |bits| AirTime::new(&Config { basic_rate: basic(bits), ..Config::default() });
    let (slow, fast) = (at(1_000_000), at(2_000_000));
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let back_off = 310.0;

    for (air, rts, answer, long, short) in
        [(slow, 352.0, 304.0, 7_678.0, 1_838.0), (fast, 272.0, 248.0, 7_486.0, 1_646.0)]
    {
        assert_eq!(micros(air.frame(FrameKind::Rts, 0)), rts);
        assert_eq!(micros(air.frame(FrameKind::Cts, 0)), answer);
        assert_eq!(micros(air.frame(FrameKind::Ack, 0)), answer);
        assert_eq!(micros(air.frame(FrameKind::Data, 40)), 488.0);
        assert_eq!(micros(air.frame(FrameKind::Data, 1_500)), 6_328.0);
        assert_eq!(micros(air.exchange(1_500)) + back_off, long);
        assert_eq!(micros(air.exchange(40)) + back_off, short);
    }
    // 20 octets of a hello at 1 Mbit/s.
    assert_eq!(micros(slow.frame(FrameKind::Broadcast, 20)), 192.0 + 432.0);
    let default = Config::default();
    assert_eq!(default.eifs, default.sifs * 2 + default.slot * 2 + Duration::from_micros(304));
}

#[test]
fn an_exchange_is_rts_cts_data_ack_with_sifs_between() {
    let mut net = Net::new(prompt(), &row(2, 200.0));
    net.run(secs(1));

    net.send(0, Some(1), 1_500, 1);
    net.run(secs(2));

    assert_eq!(
        net.story(secs(1)),
        ["0 352 Rts 0>1", "362 666 Cts 1>0", "676 7004 Data 0>1", "7014 7318 Ack 1>0"]
    );
    // What is left of the exchange after RTS, CTS and data.
    assert_eq!(net.air.iter().map(|it| it.duration).collect::<Vec<_>>(), [6_966, 6_652, 314, 0]);
    assert_eq!(net.counts, [[1, 0, 0], [0, 0, 1]]);
}

#[test]
fn a_frame_up_to_the_threshold_goes_without_rts() {
    for (octets, frames) in [(466, 2), (467, 4)] {
        let mut net = Net::new(Config { rts_threshold: 500, ..prompt() }, &row(2, 200.0));

        net.send(0, Some(1), octets, 1);
        net.run(secs(1));

        assert_eq!(net.air.len(), frames, "{octets} octets and a header of 34");
    }
}

#[test]
fn a_station_backs_off_before_the_next_packet_always() {
    let mut net = Net::new(prompt(), &row(2, 200.0));

    net.send(0, Some(1), 1_500, 500);
    net.run(secs(10));

    let gaps: Vec<f64> = net
        .air
        .windows(2)
        .filter(|pair| pair[1].kind == FrameKind::Rts)
        .map(|pair| pair[1].start.since(pair[0].end).as_secs_f64() * 1e6)
        .collect();
    assert_eq!(gaps.len(), 499);
    assert!(gaps.iter().all(|gap| (50.0..=670.0).contains(gap)), "DIFS and 0 to 31 slots");
    assert!(gaps.iter().all(|gap| ((gap - 50.0) / 20.0).fract().abs() < 1e-6));
    for edge in [50.0, 670.0] {
        assert!(gaps.iter().any(|gap| (gap - edge).abs() < 1e-6), "{edge} is drawn");
    }
    let mean = gaps.iter().sum::<f64>() / 499.0;
    // Five standard errors of 184.7 us / sqrt(499).
    assert!((mean - 360.0).abs() < 41.4, "{mean}");
}

#[test]
fn a_free_channel_is_taken_at_once_or_after_a_back_off() {
    let starts = |config| {
        let starts = (0..200).map(|seed| {
            let mut net = Net::seeded(config, &row(2, 100.0), seed);
            net.run(secs(1));
            net.send(0, None, 100, 1);
            net.run(secs(2));
            net.air[0].start.since(secs(1)).as_micros()
        });
        starts.collect::<Vec<_>>()
    };

    assert!(starts(prompt()).iter().all(|start| *start == 0));
    let random = starts(Config::default());
    assert!(random.iter().all(|start| (50..=670).contains(start) && start % 20 == 10));
    assert!(random.iter().any(|start| *start > 600) && random.iter().any(|start| *start < 100));
}

#[test]
fn a_packet_is_told_to_be_sent_after_all_who_received_it() {
    for to in [None, Some(StationId(1))] {
        let mut medium = Medium::new(prompt(), 1);
        for x in [0.0, 200.0, -200.0] {
            medium.add_station(&x.to_string(), Motion::at_rest(Position::new(x, 0.0)));
        }
        assert!(medium.send(Time::ZERO, StationId(0), Frame { token: 7, octets: 100, to }));
        let mut told = Vec::new();
        while let Some(next) = medium.next_timeout() {
            medium.handle_timeout(next);
            told.extend(std::iter::from_fn(|| medium.poll_event()));
        }

        let is_last = matches!(told.pop(), Some(Event::Sent { station: StationId(0), .. }));
        assert!(is_last, "{to:?}: {told:?}");
        assert_eq!(told.len(), if to.is_some() { 1 } else { 2 });
        assert!(told.iter().all(|event| matches!(event, Event::Received { token: 7, .. })));
    }
}

#[test]
fn a_broadcast_goes_once_at_the_basic_rate_without_rts_or_ack() {
    let mut net = Net::new(prompt(), &[(0.0, 0.0), (200.0, 0.0), (0.0, 250.0), (300.0, 0.0)]);

    net.send(0, None, 100, 1);
    net.run(secs(1));

    // 192 us and 134 octets at 1 Mbit/s.
    assert_eq!(net.story(Time::ZERO), ["0 1264 Broadcast 0>*"]);
    assert_eq!((net.air[0].heard, net.air[0].spoilt), (2, 0));
    assert_eq!(net.counts, [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]);
}

#[test]
fn an_unanswered_rts_is_sent_seven_times_with_longer_and_longer_back_offs() {
    let mut most = [0; 7];
    for seed in 0..300 {
        let mut net = Net::seeded(prompt(), &row(2, 251.0), seed);

        net.send(0, Some(1), 1_000, 1);
        net.run(secs(5));

        assert_eq!(net.air.len(), 7);
        assert!(net.air.iter().all(|frame| frame.kind == FrameKind::Rts && !frame.is_received));
        assert_eq!(net.counts[0], [0, 1, 0]);
        assert_eq!((net.stats(0).rts_failures, net.stats(0).given_up), (7, 1));
        for (try_number, pair) in net.air.windows(2).enumerate() {
            let gap = pair[1].start.since(pair[0].end).as_micros();
            assert_eq!((gap - 364) % 20, 0, "EIFS and slots");
            most[try_number + 1] = most[try_number + 1].max((gap - 364) / 20);
        }
    }
    for (try_number, window) in [(1, 63), (2, 127), (3, 255), (4, 511), (5, 1_023), (6, 1_023)] {
        let drawn = most[try_number];
        assert!(
            drawn <= window && drawn * 10 >= window * 9,
            "try {try_number}: {drawn} of {window}"
        );
    }
}

#[test]
fn data_without_ack_is_sent_four_times_each_behind_an_rts() {
    // Station 1 is switched off when it has sent its CTS, and on again before the next RTS.
    let mut net = Net::new(prompt(), &row(2, 200.0));
    net.send(0, Some(1), 1_500, 1);
    for _ in 0..4 {
        while net.air.last().is_none_or(|frame| frame.kind != FrameKind::Cts) {
            let next = net.medium.next_timeout().unwrap();
            net.run(next);
        }
        let _ = net.medium.set_on(net.now, StationId(1), false);
        while net.air.last().is_none_or(|frame| frame.kind != FrameKind::Data) {
            let next = net.medium.next_timeout().unwrap();
            net.run(next);
        }
        let _ = net.medium.set_on(net.now, StationId(1), true);
    }
    net.run(secs(5));

    let kinds: Vec<_> = net.air.iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [FrameKind::Rts, FrameKind::Cts, FrameKind::Data].repeat(4));
    let repeats: Vec<_> = net.air.iter().skip(2).step_by(3).map(|it| it.is_repeat).collect();
    assert_eq!(repeats, [false, true, true, true]);
    assert_eq!(net.counts, [[0, 1, 0], [0, 0, 0]]);
    assert_eq!(net.stats(0).data_failures, 4);
}

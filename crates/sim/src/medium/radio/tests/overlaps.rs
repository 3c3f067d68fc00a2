//! Frames that overlap, and what stations do so that they do not.

use super::*;

#[test]
fn hidden_stations_destroy_each_other_s_frames_unless_they_ask_first() {
    // The first and the last do not hear each other; both send to the one between.
    let goodput = |rts_threshold| {
        let config = Config { sense_range: 250.0, rts_threshold, ..Config::default() };
        let mut net = Net::new(config, &row(3, 200.0));
        net.send(0, Some(1), 1_500, u64::MAX);
        net.send(2, Some(1), 1_500, u64::MAX);
        net.run(secs(60));
        (net.counts[1][2], net.stats(1).collisions)
    };

    let (with_rts, without) = (goodput(0), goodput(65_535));

    assert!(with_rts.0 > 2 * without.0, "{with_rts:?} {without:?}");
    // What neither hears it cannot avoid: RTS frames still collide.
    assert!(with_rts.1 > 100, "{with_rts:?}");
    // 130 packets a second are what one station alone can send.
    assert!(with_rts.0 > 60 * 80, "{with_rts:?}");
}

#[test]
fn the_stronger_frame_survives_if_it_is_ten_db_above_and_not_later() {
    // At the receiver in the middle: 100 m to one, 170 or 180 m to the other. They do not hear each other.
    let heard = |far: f64, delays: [u64; 2]| {
        let config = Config { sense_range: 260.0, ..prompt() };
        let mut net = Net::new(config, &[(-100.0, 0.0), (far, 0.0), (0.0, 0.0)]);
        let mut order = [0, 1];
        order.sort_by_key(|station| delays[*station]);
        for station in order {
            net.run(Time::from_nanos(delays[station] * 1_000));
            net.send(station, None, 100, 1);
        }
        net.run(secs(1));
        let heard =
            |from: usize| net.air.iter().any(|frame| frame.from.0 == from && frame.heard == 1);
        [heard(0), heard(1)]
    };

    assert_eq!(heard(180.0, [0, 500]), [true, false], "a later frame 10.2 dB weaker is ignored");
    assert_eq!(heard(170.0, [0, 500]), [false, false], "9.2 dB are not enough");
    assert_eq!(heard(180.0, [500, 0]), [false, false], "the stronger one is too late");
    assert_eq!(heard(180.0, [0, 0]), [true, false], "at once the stronger one is followed");
    assert_eq!(heard(170.0, [0, 0]), [false, false]);
    // The same when the stronger one is the second of the two.
    let mut net = Net::new(prompt(), &[(180.0, 0.0), (-100.0, 0.0), (0.0, 0.0)]);
    net.send(0, None, 100, 1);
    net.send(1, None, 100, 1);
    net.run(secs(1));
    assert_eq!(net.air.iter().map(|frame| frame.heard).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(heard(180.0, [0, 2_000]), [true, true], "one after the other");
}

#[test]
fn a_frame_well_above_one_that_began_while_its_receiver_sent_is_read() {
    // Stations 0 and 1 begin at once, so 0 follows nothing when its own frame ends at 1,264 us; that of 1,
    // 400 m away, goes on to 2,064 us. Station 2 does not sense 1.
    let heard = |distance: f64| {
        let config = Config { sense_range: 450.0, ..prompt() };
        let mut net = Net::new(config, &[(0.0, 0.0), (400.0, 0.0), (-distance, 0.0)]);
        net.send(0, None, 100, 1);
        net.send(1, None, 200, 1);
        net.run(Time::from_nanos(1_400_000));
        net.send(2, None, 50, 1);
        net.run(secs(1));
        assert_eq!(net.air[1].start.as_nanos().min(net.air[2].start.as_nanos()), 0);
        assert_eq!(net.air[2].start, Time::from_nanos(1_400_000), "{:?}", net.story(Time::ZERO));
        net.counts[0][2] == 1
    };

    assert!(heard(200.0), "12 dB");
    assert!(!heard(250.0), "8.2 dB");
}

#[test]
fn stations_that_begin_at_one_instant_do_not_hear_each_other() {
    let mut net = Net::new(prompt(), &row(2, 100.0));

    net.send(0, None, 100, 1);
    net.send(1, None, 200, 1);
    net.run(secs(1));

    assert_eq!(net.story(Time::ZERO), ["0 1264 Broadcast 0>* lost", "0 2064 Broadcast 1>* lost"]);
    assert_eq!([net.stats(0).missed, net.stats(1).missed], [1, 1]);
}

#[test]
fn a_station_that_hears_only_the_cts_keeps_silent_to_the_end_of_the_exchange() {
    let config = Config { sense_range: 250.0, ..prompt() };
    let mut net = Net::new(config, &row(3, 200.0));
    net.send(0, Some(1), 1_500, 1);
    net.run(millis(2));

    net.send(2, None, 100, 1);
    net.run(secs(1));

    // The ACK ends at 7,318 us; station 2 hears nothing from 666 us to 7,014 us.
    let own = net.air.iter().find(|frame| frame.from.0 == 2).unwrap();
    let waited = own.start.as_nanos() / 1_000 - 7_318;
    assert!((50..=670).contains(&waited) && (waited - 50) % 20 == 0, "DIFS and slots: {waited}");
}

#[test]
fn a_station_that_senses_but_cannot_read_waits_eifs() {
    // Station 2 is 400 m from the sender and 600 m from the receiver: it does not sense the ACK.
    let mut least = u64::MAX;
    for seed in 0..50 {
        let mut net = Net::seeded(prompt(), &[(0.0, 0.0), (-200.0, 0.0), (400.0, 0.0)], seed);
        net.send(0, Some(1), 1_500, 1);
        net.run(millis(2));

        net.send(2, None, 100, 1);
        net.run(secs(1));

        // The data ends at 7,004 us.
        let own = net.air.iter().find(|frame| frame.from.0 == 2).unwrap();
        let waited = own.start.as_nanos() / 1_000 - 7_004;
        assert!((waited - 364) % 20 == 0, "EIFS and slots: {waited}");
        least = least.min(waited);
        assert_eq!(net.counts[0], [1, 0, 0], "its ACK was not disturbed");
    }
    assert!(least < 364 + 60, "{least}");
}

#[test]
fn a_station_told_to_keep_silent_does_not_clear_others_to_send() {
    // 3 sends to 2, whose CTS silences 1. So the RTS of 0 to 1 goes unanswered.
    let config = Config { sense_range: 250.0, ..prompt() };
    let mut net = Net::new(config, &row(4, 200.0));
    net.send(3, Some(2), 1_500, 1);
    net.run(millis(2));

    net.send(0, Some(1), 100, 1);
    net.run(millis(3));

    assert_eq!(net.story(millis(2))[2..], ["0 352 Rts 0>1"]);
    assert_eq!(net.stats(1).refused, 1);
    net.run(secs(1));
    assert_eq!((net.counts[0][0], net.counts[1][2]), (1, 1), "it gets through later");
}

#[test]
fn data_that_comes_again_because_its_ack_was_lost_is_acknowledged_and_not_passed_on() {
    // Station 2, just switched on, has not heard the data, and sends in the SIFS before the ACK: station 0
    // follows its frame and not the ACK.
    let config = Config { sense_range: 250.0, rts_threshold: 65_535, ..prompt() };
    let mut net = Net::new(config, &[(0.0, 0.0), (200.0, 0.0), (-100.0, 0.0)]);
    net.send(0, Some(1), 1_000, 1);
    // The data ends at 192 + 4,136 us.
    let _ = net.medium.set_on(net.now, StationId(2), false);
    net.run(Time::from_nanos(4_330_000 - 60_000));
    let end = net.medium.next_timeout().unwrap();
    net.run(end);
    let _ = net.medium.set_on(net.now, StationId(2), true);
    net.run(net.now + Duration::from_micros(5));
    net.medium.forget_gaps(StationId(2));
    net.send(2, None, 50, 1);
    net.run(secs(1));

    assert_eq!(net.counts[1][2], 1, "{:?}", net.story(Time::ZERO));
    assert_eq!(net.stats(1).duplicates, 1);
    assert_eq!(net.counts[0], [1, 0, 1], "its packet is sent, and it has heard the other frame");
    assert_eq!(net.stats(0).data_failures, 1);
}

#[test]
fn a_back_off_stands_still_while_the_channel_is_busy() {
    // Two saturated stations: whoever loses a round has fewer slots left in the next.
    let mut net = Net::new(Config::default(), &[(0.0, 0.0); 3]);
    net.send(0, Some(2), 1_500, u64::MAX);
    net.send(1, Some(2), 1_500, u64::MAX);
    net.run(secs(20));

    // The gaps of free slots between exchanges are the smaller of two counters; were they drawn anew each
    // round their mean would be 10.2 slots, and 15.5 of one station alone.
    let gaps: Vec<f64> = net
        .air
        .windows(2)
        .filter(|pair| pair[0].kind == FrameKind::Ack && pair[1].kind == FrameKind::Rts)
        .map(|pair| pair[1].start.since(pair[0].end).as_secs_f64() * 1e6)
        .map(|gap| (gap - 50.0) / 20.0)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((7.2..8.2).contains(&mean), "{mean}: half of one station's 15.5");
}

#[test]
fn a_station_that_is_switched_off_cuts_its_frame_and_one_switched_on_senses_what_is_on_the_air() {
    let mut net = Net::new(prompt(), &row(3, 200.0));
    let _ = net.medium.set_on(Time::ZERO, StationId(2), false);
    net.send(0, Some(1), 1_500, 1);
    net.run(millis(3));

    let frame = net.medium.set_on(net.now, StationId(0), false);
    assert_eq!(frame.map(|frame| frame.token), Some(7), "what it had to send is given back");
    assert_eq!(net.medium.set_on(net.now, StationId(2), true), None);
    net.send(2, None, 100, 1);
    net.run(secs(1));

    let story = net.story(Time::ZERO);
    assert_eq!(story[2], "676 7004 Data 0>1 lost");
    assert!(!net.medium.is_ready(StationId(0)) && net.medium.is_ready(StationId(2)));
    let own = net.air.last().unwrap();
    assert!(own.start >= Time::from_nanos(7_004_000 + 364_000), "it waits for the end: {story:?}");
    assert_eq!(net.counts[1][2], 1, "the broadcast");
}

#[test]
fn busy_time_is_what_a_station_sends_and_senses() {
    let mut net = Net::new(prompt(), &[(0.0, 0.0), (200.0, 0.0), (700.0, 0.0), (2_000.0, 0.0)]);

    net.send(0, Some(1), 1_500, 1);
    net.run(secs(1));

    // Four frames; the third station is 700 m from the sender and senses only CTS and ACK.
    let busy = [0, 1, 2, 3].map(|station| net.stats(station).busy.as_micros());
    assert_eq!(busy, [7_288, 7_288, 608, 0]);
}

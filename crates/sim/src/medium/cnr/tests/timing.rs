//! How long everything takes, computed by hand.

use super::*;
use crate::cnr::layout;

#[test]
fn a_packet_takes_the_time_that_its_bits_and_the_equipment_take() {
    // 168 octets and 3 of the intranet header, two addresses, control, check: 1424 bits. Of these one in 62
    // is followed by a stuffed zero, 23; two flags of 8. 1463 bits become 2926 coded, in 8 interleaver
    // blocks 3072, and 192 of header: 204 ms at 16 kbit/s. Key-up 200, phasing 40, lag 10.
    let expected = [
        (Coding::Interleaved, 454_000.0),
        // 2926 and 192 bits: 194.875 ms.
        (Coding::Golay, 444_875.0),
        // 1463 and 192 bits: 103.4375 ms.
        (Coding::Plain, 353_437.5),
    ];
    for (coding, micros) in expected {
        let mut lab = Lab::new(Config { coding, ..quiet() }, Hearing::All, 2, 0.0);

        assert!(lab.send(0, 1, 168, Precedence::Routine));
        lab.run(secs(30));

        let frame = lab.air[0];
        let took = frame.end.since(frame.start).as_nanos() as f64 / 1e3;
        assert_eq!(took.to_bits(), f64::to_bits(micros), "{coding:?}: {took}");
        let link_type = LinkType::Unacknowledged;
        let table = AirTime::new(lab.medium.config()).packet(link_type, 1, 168);
        assert_eq!(table, frame.end.since(frame.start));
    }
}

#[test]
fn more_destinations_and_the_wider_control_field_of_type_4_cost_octets() {
    let times = AirTime::new(&Config { coding: Coding::Plain, ..quiet() });
    let bits = |link_type, destinations| {
        times.packet(link_type, destinations, 97).as_nanos() as f64 * 16e3 / 1e9 - 4_000.0
    };

    // 100 octets, two addresses, control and check are 856 bits with 14 zeros; two flags, 192 of header.
    assert_eq!(bits(LinkType::Unacknowledged, 1).round(), 856.0 + 14.0 + 16.0 + 192.0);
    // 15 more addresses are 120 bits: 976 with 16 zeros.
    assert_eq!(bits(LinkType::Coupled, 16).round(), 976.0 + 16.0 + 16.0 + 192.0);
    assert_eq!(bits(LinkType::Decoupled, 1).round(), 864.0 + 14.0 + 16.0 + 192.0);
}

#[test]
fn a_busy_net_is_noticed_after_key_up_phasing_lag_and_32_bits() {
    let config = quiet();
    let with = |change: fn(&mut Timing)| {
        let mut config = config;
        change(&mut config.timing);
        AirTime::new(&config).net_busy_detect()
    };

    assert_eq!(with(|_| {}), Duration::from_millis(252));
    assert_eq!(with(|it| it.is_synchronous = false), Duration::from_millis(254));
    let own = Duration::from_millis(30);
    assert_eq!(with(|it| it.busy_detect = Some(Duration::from_millis(30))), own);
}

#[test]
fn slots_stand_a_busy_detect_time_apart_behind_the_timeout_period() {
    // P-NAD: the station of rank r takes slot r if it is urgent. Two stations send when the first transmission ends.
    let config = Config { access: AccessMethod::Prioritised, ..quiet() };
    let mut lab = Lab::new(config, Hearing::All, 4, 0.0);
    assert!(lab.send(3, 0, 168, Precedence::Urgent));
    lab.run(Time::from_nanos(1_200_000_000));
    for station in [2, 1] {
        assert!(lab.send(station, 0, 168, Precedence::Urgent));
    }
    lab.run(secs(30));

    // Rank 4: 4 * 252 + 3 * 10 ms. Then TOL + TURN are 60 ms, and rank 2 waits 2 * 252 + 10 ms, rank 3
    // after the next transmission 3 * 252 + 20 ms.
    let first = 4 * 252_000 + 30_000;
    let second = first + 454_000 + 60_000 + 514_000;
    let third = second + 454_000 + 60_000 + 776_000;
    let line = |from: usize, start: u64| format!("{start} {} Data {from}>0", start + 454_000);
    assert_eq!(lab.story(), [line(3, first), line(1, second), line(2, third)]);
}

#[test]
fn frames_share_a_transmission_as_far_as_its_octets_allow() {
    let config = Config { concatenate: 400, coding: Coding::Plain, ..quiet() };
    let mut lab = Lab::new(config, Hearing::All, 3, 0.0);
    for to in [1, 2, 1, 2] {
        assert!(lab.send(0, to, 168, Precedence::Routine));
    }

    lab.run(secs(30));

    // Two frames have 2 * (1424 + 23) bits and three flags: 192 + 2894 + 24 bits are 194.375 ms.
    assert_eq!(lab.stats(0).transmissions, 2);
    let starts: Vec<Time> = lab.air.iter().map(|it| it.start).collect();
    assert_eq!([starts[0], starts[2]], [starts[1], starts[3]]);
    assert_ne!(starts[1], starts[2]);
    let took = lab.air[0].end.since(lab.air[0].start);
    assert_eq!(took, Duration::from_nanos(250_000_000 + 194_375_000));
}

#[test]
fn relayed_packets_carry_the_addresses_of_their_way() {
    let direct = layout::intranet(1);

    assert_eq!([direct, layout::intranet(2), layout::intranet(3)], [3, 10, 12]);
    // Sixteen stations of three octets, behind two and the intranet header.
    assert_eq!(layout::update(16), 53);
}

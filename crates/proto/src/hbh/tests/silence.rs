//! A neighbour that is not heard.

use super::*;

#[test]
fn after_an_outage_of_any_length_packets_arrive_within_a_second() {
    for outage in [1, 10, 60, 600] {
        let mut pair = Line::pair(Config::new(Profile::Default));
        for seq in 0..8 {
            pair.give(&segment(seq * 100, 100, 0));
        }
        pair.until = Some(Time::ZERO + Duration::from_secs(outage));
        pair.run(|_| Fate::LOST);
        let sent = pair.sent;

        pair.until = None;
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), 8, "{outage} s");
        let last = pair.delivered_at[7];
        assert!(last < Duration::from_secs(outage + 1), "{outage} s: {last:?}");
        assert_eq!(pair.hops[A].stats().packets_abandoned, 0);
        // And the silence was not filled with repeats.
        assert!(sent as u64 <= 60 + 3 * outage, "{outage} s: {sent}");
    }
}

#[test]
fn only_one_flow_asks_a_silent_peer() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for port in 1..=20 {
        let packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0);
        pair.give(&packet);
    }
    pair.until = Some(Time::ZERO + Duration::from_secs(10));
    pair.run(|_| Fate::LOST);
    let sent = pair.sent;

    pair.until = Some(Time::ZERO + Duration::from_secs(20));
    pair.run(|_| Fate::LOST);

    assert!(pair.sent - sent <= 22, "{}", pair.sent - sent);
}

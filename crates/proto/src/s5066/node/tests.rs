//! Nodes that talk over a modem without noise, or with as much as a test wants.

mod pair;

use std::time::Duration;

use crate::rng::Rng;

use pair::{Pair, Side};

#[test]
fn a_u_pdu_crosses_in_one_transmission_that_also_asks_for_the_link() {
    let mut pair = Pair::new("9600", |_| {});
    pair.send(Side::A, b"HELLO");

    pair.run(Duration::from_secs(60));

    assert_eq!(pair.received(Side::B), [b"HELLO".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), 1);
    assert_eq!(pair.transmissions(), [1, 1]);
}

#[test]
fn much_data_crosses_a_noisy_channel_once_each_and_in_order() {
    for (waveform, errors_per_octet) in [("9600", 3e-4), ("300", 3e-4), ("2400", 0.0)] {
        let mut pair = Pair::new(waveform, |_| {});
        let mut rng = Rng::stream(7, "noise");
        pair.noise = Box::new(move |_, octets| {
            for octet in octets {
                if rng.uniform() < errors_per_octet {
                    *octet ^= 0x10;
                }
            }
        });
        let sent: Vec<Vec<u8>> = (0..60_u8).map(|number| vec![number; 700]).collect();
        for u_pdu in &sent {
            pair.send(Side::A, u_pdu);
        }

        pair.run(Duration::from_secs(3_600));

        assert_eq!(pair.received(Side::B), sent, "{waveform}");
        assert_eq!(pair.confirmed(Side::A), sent.len(), "{waveform}");
    }
}

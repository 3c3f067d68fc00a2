//! The radio of a station: its key-up, its modem, and the channel.

use std::time::Duration;

use hf::modem::Waveform;
use hf::s5066::{Address, node};
use sim::hf::{Channel, Config, Timing};

/// The shortest key-up: equipment is said to reach 150 to 200 ms from receiving to transmitting.
pub const FASTEST: Duration = Duration::from_millis(200);

/// The waveform of this speed.
pub fn waveform(speed: u32) -> Waveform {
    speed.to_string().parse().expect("the speeds are those of waveforms")
}

/// The frequency of stations whose radios key up in this time.
pub fn air(channel: Channel, key_up: Duration) -> Config {
    Config { channel, timing: Timing { key_up, ..Timing::default() } }
}

/// Configures a node that knows the delays of its modem.
pub fn station(address: u32, waveform: Waveform, key_up: Duration) -> node::Config {
    Timing { key_up, ..Timing::default() }.station(Address::node(address), waveform)
}

/// The assumptions about modems and channels where the paper does not say how it measured.
pub fn air_assumptions() -> Vec<String> {
    let timing = Timing::default();
    vec![
        format!(
            "The modem: waveforms of STANAG 4539 to 9600 bit/s and of 48 kHz (STANAG 5069) for \
             240000 bit/s, with their preambles, blocks of the short interleaver and end of \
             message. From the command to transmit until the preamble {} ms, what good equipment \
             reaches, unless a longer key-up is named; from the last block until it listens {} ms, \
             to decode a block {} ms, on the way {} ms.",
            FASTEST.as_millis(),
            timing.key_down.as_millis(),
            timing.decoder.as_millis(),
            timing.propagation.as_millis(),
        ),
        "Bit errors are independent, after decoding. Preambles are always recognised.".to_owned(),
    ]
}

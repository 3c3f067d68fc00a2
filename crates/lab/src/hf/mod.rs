//! The claims about HF radio ("TCP over HF Radio", a white paper): what STANAG 5066 makes of a
//! link, alone and below IP.
//!
//! Each file holds claims that look at the same runs.

mod bulk;
mod s5066;
mod timeline;

use std::time::Duration;

use sim::hf::{self, Channel, Timing};

use crate::claim::Claim;
use crate::stats::Estimate;

pub use timeline::{capture, span, timeline};

const GROUP: &str = "hf";
const BIT_S: &str = "bit/s";
const UTILISATION: &str = "utilisation";

/// The claims.
#[must_use]
pub fn claims() -> Vec<Claim> {
    vec![s5066::claim()]
}

/// A number that others measured, of runs that we do not know.
fn published(mean: f64) -> Estimate {
    Estimate { mean, ci95: None, runs: 0, censored: 0 }
}

/// The frequency that all stations share.
fn air(channel: Channel) -> hf::Config {
    hf::Config { channel, timing: Timing { key_up: SWITCHING, ..Timing::default() } }
}

/// From receiving to transmitting: what is said to be the least that equipment reaches is 150 to
/// 200 ms.
const SWITCHING: Duration = Duration::from_millis(200);

/// What was taken where the paper is silent.
fn assumptions() -> Vec<String> {
    let timing = air(Channel::Clear).timing;
    vec![
        format!(
            "The modem: waveforms of STANAG 4539 to 9600 bit/s and of 48 kHz (STANAG 5069) for \
             240000 bit/s, with their preambles, blocks of the short interleaver and end of \
             message. From the command to transmit until the preamble {} ms, from the last block \
             until it listens {} ms, to decode a block {} ms, on the way {} ms: what good \
             equipment reaches, not what it is sold with.",
            timing.key_up.as_millis(),
            timing.key_down.as_millis(),
            timing.decoder.as_millis(),
            timing.propagation.as_millis(),
        ),
        "Bit errors are independent, after decoding. Preambles are always recognised."
            .to_owned(),
        "Two nodes that alternate, U_PDUs delivered in any order, transmissions of up to 127.5 s, acknowledgements twice, addresses \
         of one octet, U_PDUs of 2048 octets, long sequence numbers where 128 frames do not fill a \
         transmission."
            .to_owned(),
    ]
}

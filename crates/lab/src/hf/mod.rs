//! The claims about HF radio ("TCP over HF Radio", a white paper): what STANAG 5066 makes of a
//! link, alone and below IP.
//!
//! Each file holds claims that look at the same runs.

mod bulk;
mod errors;
mod ipclient;
pub mod link;
mod s5066;
mod shared;
mod timeline;
mod transfer;

use std::time::Duration;

use proto::modem::Waveform;
use proto::s5066::{Address, node};
use sim::hf::{self, Channel, Timing};

use crate::claim::Claim;
use crate::stats::Estimate;

pub use bulk::simulate_bulk;
pub use timeline::{capture, span, timeline};

const GROUP: &str = "hf";
const BIT_S: &str = "bit/s";
const UTILISATION: &str = "utilisation";

/// The claims.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![s5066::claim()];
    claims.extend(ipclient::claims());
    claims.push(errors::claim());
    claims.push(shared::claim());
    claims
}

/// A number that others measured, of runs that we do not know.
fn published(mean: f64) -> Estimate {
    Estimate { mean, ci95: None, runs: 0, censored: 0 }
}

/// The frequency that all stations share.
fn air(channel: Channel) -> hf::Config {
    hf::Config { channel, timing: Timing { key_up: SWITCHING, ..Timing::default() } }
}

/// A node that knows how long its modem takes.
fn station(address: u32, waveform: Waveform) -> node::Config {
    let decoding = air(Channel::Clear).timing.decoder;
    let config = node::Config::new(Address::node(address), waveform);
    node::Config { switching: SWITCHING, decoding, ..config }
}

/// From receiving to transmitting: what is said to be the least that equipment reaches is 150 to
/// 200 ms.
const SWITCHING: Duration = Duration::from_millis(200);

/// What was taken of a link where the paper is silent.
fn assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.push(
        "Two nodes that alternate, U_PDUs of 2048 octets delivered in any order, transmissions of \
         up to 127.5 s, acknowledgements twice, addresses of one octet, long sequence numbers where \
         128 frames do not fill a transmission."
            .to_owned(),
    );
    all
}

/// What was taken of transfers where the paper is silent.
fn transfer_assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.extend([
        "The total time ends when all data is delivered, as in the paper, which counts from the \
         first request; the time until a confirmation is back is given beside it. Connect time ends \
         when the connecting host is connected. 1 kB is 1000 octets, 100 KiB are 102400."
            .to_owned(),
        "TCP of both hosts as Linux has it: CUBIC, ten segments to start with, SACK, timestamps, an \
         RTO of SRTT and at least 200 ms, at most 120 s, needless timeouts undone by timestamps, \
         buffers that reach 4 MB to send and 3 MB to receive. MTU 1500. Hosts reach their stations \
         over LANs of 100 Mbit/s."
            .to_owned(),
        "With ARQ stations alternate; without they have slots of their own. All else that an IP \
         client and a node can be told is as it is unless told."
            .to_owned(),
    ]);
    all
}

/// What was taken of modems and channels where the paper is silent.
fn air_assumptions() -> Vec<String> {
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
        "Bit errors are independent, after decoding. Preambles are always recognised.".to_owned(),
    ]
}

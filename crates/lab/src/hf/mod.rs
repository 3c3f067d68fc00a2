//! The claims about HF radio ("TCP over HF Radio", a white paper): the utilisation of a link by
//! STANAG 5066, alone, below IP and below HF-PEP.
//!
//! Each file holds claims that look at the same runs.

mod bulk;
mod compare;
mod errors;
mod fair;
mod headers;
mod hfpep;
mod interactive;
mod ipclient;
mod key_ups;
pub mod link;
mod radio;
mod s5066;
mod shared;
mod survive;
mod talk;
mod timeline;
mod tls;
mod transfer;

use hf::modem::{Family, Interleaver, Waveform};
use hf::s5066::node;
use sim::hf::Channel;

use crate::prelude::*;
pub use bulk::simulate_bulk;
use radio::air_assumptions;
pub use timeline::{capture, span, timeline};

const GROUP: &str = "hf";
const BIT_S: &str = "bit/s";
const UTILISATION: &str = "utilisation";
/// The number of runs on a clear link, where all runs give nearly the same.
const ALIKE: u32 = 2;

/// All claims about HF radio.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![s5066::CLAIM];
    claims.extend(ipclient::CLAIMS);
    claims.push(errors::CLAIM);
    claims.push(headers::CLAIM);
    claims.extend(hfpep::CLAIMS);
    claims.extend([interactive::CLAIM, survive::CLAIM, tls::CLAIM]);
    claims.extend([shared::CLAIM, fair::CLAIM]);
    claims
}

/// A published figure, with an unknown number of runs.
fn published(mean: f64) -> Estimate {
    Estimate { mean, ..Estimate::UNKNOWN }
}

/// A bit error rate.
fn scientific(ber: f64) -> String {
    if ber > 0.0 { format!("{ber:e}") } else { "0".to_owned() }
}

/// A waveform in the labels of cells: see [`crate::grid::Cell::new`].
fn draws_of_waveform(waveform: Waveform) -> String {
    let family = match waveform.family() {
        Family::Stanag4539 => "Stanag4539",
        Family::Wideband48 => "Wideband48",
    };
    let interleaver = match waveform.interleaver() {
        Interleaver::UltraShort => "UltraShort",
        Interleaver::VeryShort => "VeryShort",
        Interleaver::Short => "Short",
        Interleaver::Medium => "Medium",
        Interleaver::Long => "Long",
        Interleaver::VeryLong => "VeryLong",
    };
    let bits_per_s = waveform.bits_per_s();
    format!("Waveform {{ family: {family}, bits_per_s: {bits_per_s}, interleaver: {interleaver} }}")
}

/// A channel in the labels of cells.
fn draws_of_channel(channel: Channel) -> String {
    match channel {
        Channel::Ber(ber) => format!("Ber({ber:?})"),
        Channel::Clear => "Clear".to_owned(),
        Channel::Awgn { .. } | Channel::Fading { .. } | Channel::Silent => channel.to_string(),
    }
}

/// The frequency that stations with the fastest radio share.
fn air(channel: Channel) -> sim::hf::Config {
    radio::air(channel, radio::FASTEST)
}

/// A node with the fastest radio.
fn station(address: u32, waveform: Waveform) -> node::Config {
    radio::station(address, waveform, radio::FASTEST)
}

/// The assumptions about a link where the paper does not say how it measured.
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

/// The assumptions about transfers where the paper does not say how it measured.
fn transfer_assumptions() -> Vec<String> {
    let mut all = air_assumptions();
    all.extend([
        "The total time ends when all data is delivered, as in the paper, which counts from the \
         first request; the time until a confirmation is back is given beside it. Connect time ends \
         when the connecting host is connected. 1 kB is 1000 octets, 100 KiB are 102400."
            .to_owned(),
        format!(
            "TCP of both hosts as Linux has it: CUBIC, ten segments to start with, SACK, timestamps, \
             an RTO of SRTT and at least 200 ms, at most 120 s, needless timeouts undone by \
             timestamps, buffers of {} to send and 3 MB to receive. MTU 1500. Hosts reach their \
             stations over LANs of 100 Mbit/s.",
            transfer::buffer(transfer::BUFFER),
        ),
        "With ARQ stations alternate; without they have slots of their own. All else that an IP \
         client and a node can be told is as it is unless told."
            .to_owned(),
    ]);
    all
}

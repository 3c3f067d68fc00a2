//! A company's radio net: messages over UDP with S/R, and over TCP.
//!
//! ```text
//!  16 stations on one channel of 16 kbit/s     any ── message at a random time ──▶ any other
//!      S/R, fixed timeouts │ S/R, our profile │ TCP, a connection for each │ TCP, connections kept
//! ```
//!
//! All carriers of a place are given the same messages at the same times.

use crate::prelude::*;

mod assumed;
mod assumption;
mod better;
mod group;
mod guess;
mod large;
mod rates;
mod timeouts;
mod trial;

/// The share of messages that arrived and were confirmed to their senders, in per cent.
const TOLD: Metric = "told";
/// Mean seconds from the creation of a message to its arrival, over arrived messages.
const DELAY: Metric = "delay";
/// Seconds within which nine of ten messages arrived.
const NINE: Metric = "nine of ten";
/// Mean seconds until a sender was told.
const TOLD_AFTER: Metric = "told after";
/// Mean seconds until a connection was established.
const SET_UP: Metric = "set-up";
/// Times that stations transmitted, for each message.
const TRANSMISSIONS: Metric = "transmissions";
/// Segments sent again and repairs, for each message.
const REPEATS: Metric = "repeats";
/// The share of time in which stations sensed a busy net, in per cent.
const BUSY: Metric = "busy";

/// The paper's measure of a parameter: completion over delay and what is sent.
const MERIT: Metric = "merit";

const SECONDS: &str = "s";
const PERCENT: &str = "%";

/// The claims about it, in the order of the paper, and then ours.
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![timeouts::CLAIM];
    claims.extend(rates::CLAIMS);
    claims.extend([large::CLAIM, assumed::CLAIM]);
    claims.extend([better::CLAIM, guess::CLAIM, group::CLAIM]);
    claims
}

/// The input rate of a net.
fn rate_axis() -> Axis {
    Axis::log("Messages, all stations together", "bit/s")
}

/// Two means beside each other, without their intervals.
fn pair(a: &Estimate, b: &Estimate) -> String {
    format!("{} and {}", number(a.mean), number(b.mean))
}

/// What was taken where the paper says nothing.
fn assumptions() -> Vec<String> {
    [
        "The net is that of docs/protocols/channels.md with its defaults: 2 % of undisturbed frames are lost, a busy net is noticed after 252 ms, \
         stations hear all others, and topology updates are on the air.",
        "Messages are made for an hour, each station's at exponentially distributed times, for any other with the same chance; what \
         is under way ten minutes later did not come. Told are messages of which the sender learnt that they came.",
        "TCP has no options, a congestion window of ten segments and a connection for each message, which is closed with its last \
         octet. S/R sends a message three times at most in the profile \"seed\" and five times in ours.",
        "The fixed timeouts were chosen on other seeds (tac-sar-timeouts).",
    ]
    .map(str::to_owned)
    .to_vec()
}

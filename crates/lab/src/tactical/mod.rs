//! The claims about TCP in a tactical internet (Liu, "The Performance of TCP in a Tactical Internet").
//!
//! ```text
//!  a brigade's EPLRS needlines ─▶ figures 1 to 4: passive opens, the initial RTO, R1 and R2
//!  a company's SINCGARS net ────▶ figures 5 and 6: TCP beside UDP with S/R
//! ```

mod brigade;
mod company;
mod connect;
mod failure;
mod initial;
mod patience;
mod topology;

use crate::prelude::*;
use crate::scenario::{BgpReport, Built, Plan};

/// The group of all claims here.
const GROUP: &str = "tactical";
/// The most runs of a place.
const RUNS: u32 = 10;

/// The share of messages that came, in per cent.
const COMPLETION: Metric = "completion";

/// The claims, in the order of the paper.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![connect::CLAIM];
    claims.extend(initial::CLAIMS);
    claims.extend([failure::CLAIM, patience::CLAIM]);
    claims.extend(company::claims());
    claims
}

/// The scenario of the brigade, as in `examples`.
#[must_use]
pub fn brigade() -> Plan {
    brigade::example()
}

/// Runs a network to its end and returns the result of its BGP sessions.
fn bgp_of(built: &mut Built<'_>) -> BgpReport {
    let (end, stride) = (built.end(), built.plan().duration);
    built.run_until(end, stride, |_| false);
    built.bgp().expect("there are sessions")
}

/// What was taken where the paper is silent, of the brigade.
fn assumptions() -> Vec<String> {
    [
        "The paper gives 20 routers, needlines of 480 bit/s each way, ways of 1 to 7 needlines, sizes and rates of messages. We \
         take a grid of four rows of five with 31 needlines; each has a slot each second, and a packet that finds it idle waits \
         for the next. Nothing is added to packets for X.25, which runs between router and radio alone.",
        "Twelve of the 20 have BGP sessions with each other, since BGP wants that of all speakers of a system: 66 sessions. How \
         many there are decides how critical the initial RTO is; twelve give what the paper's figure 1 does, and tables show \
         others.",
        "OSPF has hellos each 60 s and runs for ten minutes before BGP and C2 messages begin; both say something new for 55 \
         minutes and have five more to arrive. Routing messages go first in queues of 100 packets.",
        "TCP is RFC 9293 with the timer of RFC 6298 and Karn's rule, no options, at least 1 s and at most 10 minutes of timeout; \
         R2 counts from the repeat that is R1, also while a connection is opened. A session that ended is opened again after two \
         minutes. The initial RTO is that of SYN and, where the handshake timed out, that of the first data.",
        "A failure is a packet that a needline loses, each on its own, of all kinds. c is the share of messages that came of all \
         that speakers had to say, those for peers without a session included; d is the mean of those that came, from their \
         making to their last octet; t is all octets of TCP and IP on all needlines over the 60 minutes.",
    ]
    .map(str::to_owned)
    .to_vec()
}

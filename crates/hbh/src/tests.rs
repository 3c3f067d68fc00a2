//! Two or three nodes in a line, through the public interface; a file for each topic.

mod absorb;
mod bounds;
mod congestion;
mod contract;
mod exchange;
mod line;
mod model;
mod order;
mod packets;
mod repeat;
mod routes;
mod scripted;
mod silence;
mod spare;
mod turns;
mod unsent;

use std::time::Duration;

use base::ip::{Header, Spec, protocol, rewrite_v4_checksum, udp};
use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use self::line::{A, B, C, DELAY, Fate, Line, SLOT, Sent, peer_config, quiet, roomy};
use self::packets::{
    ACK, FIN, RST, SYN, acknowledgement, datagram, long_datagram, number_acknowledged, number_of,
    reversed, segment, seq_of,
};
use self::scripted::{Answered, Arrivals, data};
use super::*;

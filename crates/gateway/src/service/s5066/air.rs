//! Measures how the air was used over the last minutes, and how much data is queued.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::time::Time;
use hf::s5066::Node;
use hf::s5066::node::{Airtime, Link};
use serde::Serialize;

use crate::service::rounded;

/// Between two samples.
const EVERY: Duration = Duration::from_secs(10);
/// The reported spans, in minutes.
const SPANS: [u64; 3] = [1, 5, 15];
/// Number of samples kept: the longest span, including a sample from before its beginning.
const KEPT: u64 = 60 * SPANS[SPANS.len() - 1] / EVERY.as_secs() + 1;

/// The use of the air, sampled.
#[derive(Debug)]
pub struct Air {
    samples: VecDeque<(Time, Airtime)>,
}

/// The use of the air over a span.
#[derive(Debug, PartialEq, Serialize)]
pub struct Span {
    minutes: u64,
    /// Share of time spent transmitting.
    transmitting: f64,
    /// Share of time spent hearing others.
    receiving: f64,
    /// Data that this node sent for the first time, in bit/s.
    sent_bit_s: f64,
    /// Data that this node received, in bit/s.
    received_bit_s: f64,
    /// Data sent and received, as a share of the waveform's capacity.
    utilisation: f64,
}

/// Another station.
#[derive(Debug, Serialize)]
pub struct Station {
    address: String,
    link: &'static str,
    /// Seconds since it was heard.
    heard_s: Option<u64>,
    waiting_octets: usize,
    is_sending: bool,
}

impl Air {
    pub fn new() -> Self {
        Self { samples: VecDeque::from([(Time::ZERO, Airtime::default())]) }
    }

    /// When the next sample is due.
    pub fn due(&self) -> Time {
        self.samples.back().map_or(Time::ZERO, |(at, _)| *at + EVERY)
    }

    /// Takes a sample if it is due.
    pub fn handle_timeout(&mut self, now: Time, node: &Node) {
        if self.due() <= now {
            self.samples.push_back((now, node.airtime(now)));
            if self.samples.len() as u64 > KEPT {
                self.samples.pop_front();
            }
        }
    }

    /// The use of the air up to now; a span longer than the time measured so far covers that time only.
    pub fn spans(&self, now: Time, node: &Node) -> Vec<Span> {
        let after = node.airtime(now);
        let capacity = f64::from(node.waveform().bits_per_s());
        let span = |minutes: u64| {
            let from = now - Duration::from_secs(60 * minutes);
            let (at, before) = self.samples.iter().find(|(at, _)| *at >= from)?;
            let seconds = now.since(*at).as_secs_f64();
            if seconds <= 0.0 {
                return None;
            }
            let share = |after: Duration, before: Duration| {
                after.saturating_sub(before).as_secs_f64() / seconds
            };
            let rate =
                |after: u64, before: u64| after.saturating_sub(before) as f64 * 8.0 / seconds;
            let sent_bit_s = rate(after.sent, before.sent);
            let received_bit_s = rate(after.delivered, before.delivered);
            Some(Span {
                minutes,
                transmitting: rounded(share(after.transmitted, before.transmitted), 3),
                receiving: rounded(share(after.heard, before.heard), 3),
                sent_bit_s: rounded(sent_bit_s, 0),
                received_bit_s: rounded(received_bit_s, 0),
                utilisation: rounded((sent_bit_s + received_bit_s) / capacity, 3),
            })
        };
        SPANS.into_iter().filter_map(span).collect()
    }
}

/// The stations that a node knows.
pub fn stations(now: Time, node: &Node) -> Vec<Station> {
    let stations = node.stations().map(|station| Station {
        address: station.address.to_string(),
        link: match station.link {
            Link::Down => "down",
            Link::Calling => "calling",
            Link::Pausing => "does not answer",
            Link::Up => "up",
        },
        heard_s: station.heard_at.map(|at| now.since(at).as_secs()),
        waiting_octets: station.waiting,
        is_sending: station.is_sending,
    });
    stations.collect()
}

/// The queued octets of each priority; empty priorities are left out.
pub fn queues(node: &Node) -> BTreeMap<usize, usize> {
    node.queues().into_iter().enumerate().filter(|(_, octets)| *octets > 0).collect()
}

//! Counts messages sent, delivered, failed and received.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;

use super::super::stamp::Stamp;
use crate::summary::Summary;

/// Statistics of a messenger.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Messages made.
    pub sent: u64,
    /// The same, counted once for each destination.
    pub expected: u64,
    /// Destinations for which the carrier confirmed delivery.
    pub told: u64,
    /// Time until the confirmation.
    pub told_after: Summary,
    /// Destinations that the carrier gave up.
    pub failed: u64,
    /// Messages that the carrier did not take.
    pub refused: u64,
    /// ICMP errors about them: there was no way.
    pub errors: u64,
    /// Time to establish a connection, for successful connections.
    pub set_up: Summary,
    /// Messages received of others.
    pub received: u64,
    /// How long these were under way.
    pub delay: Summary,
    /// Messages that were received before.
    pub again: u64,
    /// Received and too short to tell when they were sent.
    pub malformed: u64,
}

/// Counts.
#[derive(Debug, Default)]
pub struct Tally {
    stats: Stats,
    delays: Vec<Duration>,
    /// Received messages, by sender and number.
    known: BTreeSet<(IpAddr, u64)>,
}

impl Tally {
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub fn delays(&self) -> &[Duration] {
        &self.delays
    }

    /// A message is made for so many destinations.
    pub fn submit(&mut self, destinations: usize) {
        self.stats.sent += 1;
        self.stats.expected += destinations as u64;
    }

    pub fn refuse(&mut self) {
        self.stats.refused += 1;
    }

    pub fn count_error(&mut self) {
        self.stats.errors += 1;
    }

    /// A message arrived.
    pub fn receive(&mut self, now: Time, from: IpAddr, octets: &[u8]) {
        let Some(stamp) = Stamp::parse(octets) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.known.insert((from, stamp.number)) {
            self.stats.again += 1;
            return;
        }
        let delay = now.since(stamp.sent);
        self.stats.received += 1;
        self.stats.delay.add(delay);
        self.delays.push(delay);
    }

    /// The carrier confirms delivery of a message created at `made`.
    pub fn tell(&mut self, now: Time, made: Time) {
        self.stats.told += 1;
        self.stats.told_after.add(now.since(made));
    }

    /// The carrier gives up on so many destinations.
    pub fn fail(&mut self, destinations: usize) {
        self.stats.failed += destinations as u64;
    }

    /// A connection was established that was asked for at `asked`.
    pub fn set_up(&mut self, now: Time, asked: Time) {
        self.stats.set_up.add(now.since(asked));
    }
}

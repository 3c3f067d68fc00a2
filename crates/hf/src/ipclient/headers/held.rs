//! Holds compressed datagrams that arrived before the table to restore them.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use crate::s5066::Address;

/// Octets at most, of all nodes together.
const MOST: usize = 64 << 10;
/// What a U_PDU counts for beside its octets.
const EACH: usize = 64;
/// How long it takes at most until a node has told its table.
const LIFETIME: Duration = Duration::from_secs(300);

/// The waiting datagrams, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Held {
    u_pdus: VecDeque<(Time, Address, Vec<u8>)>,
    octets: usize,
}

impl Held {
    /// Takes one; how many others had to go.
    pub(super) fn push(&mut self, now: Time, from: Address, u_pdu: Vec<u8>) -> u64 {
        self.octets += u_pdu.len() + EACH;
        self.u_pdus.push_back((now, from, u_pdu));
        let mut dropped = self.expire(now);
        while self.octets > MOST {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    /// Drops what is too old; how many.
    fn expire(&mut self, now: Time) -> u64 {
        let mut dropped = 0;
        while self.u_pdus.front().is_some_and(|(at, ..)| now.since(*at) > LIFETIME) {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    fn pop(&mut self) {
        if let Some((_, _, u_pdu)) = self.u_pdus.pop_front() {
            self.octets -= u_pdu.len() + EACH;
        }
    }

    /// Takes out the datagrams of a node in order of arrival; also returns how many datagrams were too old.
    pub(super) fn take(&mut self, now: Time, from: Address) -> (Vec<Vec<u8>>, u64) {
        let dropped = self.expire(now);
        let all = std::mem::take(&mut self.u_pdus);
        let (its, others): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|(_, node, _)| *node == from);
        self.u_pdus = others;
        let its: Vec<Vec<u8>> = its.into_iter().map(|(_, _, u_pdu)| u_pdu).collect();
        self.octets -= its.iter().map(|u_pdu| u_pdu.len() + EACH).sum::<usize>();
        (its, dropped)
    }
}

//! A link to a neighbour: the state heard in HELLOs, and the quality (RFC 3626, 7.1 and 14).

use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::{Time, earliest};

use super::config::Hysteresis;
use super::wire::{self, Seq};

/// Most packets in a row counted as lost, and the greatest age of a packet: numbers farther away come from a restarted
/// neighbour.
const MOST_MISSING: u16 = 32;

/// A link from an interface to a neighbour's.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The neighbour's main address.
    pub(super) main: Ipv4Addr,
    /// How willing it is to carry for others.
    pub(super) willingness: u8,
    /// Until when the link counts as symmetric, and as heard.
    symmetric: Option<Time>,
    heard: Option<Time>,
    /// Until when it is remembered.
    until: Time,
    quality: Option<Quality>,
}

/// The state of the link as the neighbour reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    /// It hears this node.
    Heard,
    /// It does not any more.
    Lost,
    /// Nothing.
    Nothing,
}

/// The quality of a link: the part of the neighbour's packets that arrives.
#[derive(Clone, Debug)]
struct Quality {
    /// The mean over packets: 1 for each received, 0 for each lost.
    mean: f64,
    /// Whether it was not good enough yet.
    is_pending: bool,
    /// Until when the link counts as lost.
    lost: Option<Time>,
    /// Sequence number of the neighbour's latest packet.
    seq: Seq,
    /// How often it says HELLO, and when the next one is overdue.
    interval: Duration,
    overdue: Time,
}

impl Link {
    /// A link on which a HELLO came in a packet with this number.
    pub(super) fn new(main: Ipv4Addr, until: Time, seq: Seq, hysteresis: &Hysteresis) -> Self {
        let quality = hysteresis.is_on.then_some(Quality {
            mean: hysteresis.scaling,
            is_pending: true,
            lost: None,
            seq,
            interval: Duration::MAX,
            overdue: Time::MAX,
        });
        Self { main, willingness: 0, symmetric: None, heard: None, until, quality }
    }

    /// Takes a HELLO that holds until `until`.
    pub(super) fn handle_hello(&mut self, until: Time, said: Said, hold: Duration) {
        self.heard = Some(until);
        match said {
            Said::Heard => {
                self.symmetric = Some(until);
                self.until = until + hold;
            }
            Said::Lost => self.symmetric = None,
            Said::Nothing => {}
        }
        self.until = self.until.max(until);
    }

    /// Learns after what time the next HELLO comes.
    pub(super) fn handle_interval(&mut self, now: Time, interval: Duration) {
        if let Some(quality) = &mut self.quality {
            quality.interval = interval;
            quality.overdue = now + interval + interval / 2;
        }
    }

    /// Counts a received packet with this number.
    pub(super) fn handle_packet(
        &mut self,
        now: Time,
        seq: Seq,
        hysteresis: &Hysteresis,
        hold: Duration,
    ) {
        let until = self.until.min(now + hold);
        let Some(quality) = &mut self.quality else { return };
        let (ahead, behind) =
            (seq.0.wrapping_sub(quality.seq.0), quality.seq.0.wrapping_sub(seq.0));
        if behind <= MOST_MISSING {
            return;
        }
        if ahead <= MOST_MISSING {
            quality.lose(u32::from(ahead) - 1, hysteresis, until);
        }
        quality.seq = seq;
        quality.mean += hysteresis.scaling * (1.0 - quality.mean);
        if quality.mean > hysteresis.high {
            (quality.is_pending, quality.lost) = (false, None);
        }
    }

    /// Learns that the link layer did not reach the neighbour.
    pub(super) fn handle_break(&mut self, now: Time, hold: Duration) {
        (self.symmetric, self.heard) = (None, None);
        self.until = now + hold;
        if let Some(quality) = &mut self.quality {
            (quality.mean, quality.is_pending) = (0.0, true);
            quality.lost = Some(now + hold);
        }
    }

    /// Acts on what is due; whether the link is still to be remembered.
    pub(super) fn expire(&mut self, now: Time, hysteresis: &Hysteresis, hold: Duration) -> bool {
        self.symmetric.take_if(|until| *until <= now);
        self.heard.take_if(|until| *until <= now);
        if self.until <= now {
            return false;
        }
        let until = self.until.min(now + hold);
        if let Some(quality) = &mut self.quality {
            quality.lost.take_if(|until| *until <= now);
            if quality.overdue <= now {
                let missed = now.since(quality.overdue).as_nanos() / quality.interval.as_nanos();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
                quality.overdue += quality.interval.saturating_mul(missed);
                quality.lose(missed, hysteresis, until);
            }
        }
        true
    }

    /// Whether packets go over it: both hear each other well enough.
    pub(super) fn is_symmetric(&self) -> bool {
        let is_good = |quality: &Quality| !quality.is_pending && quality.lost.is_none();
        self.symmetric.is_some() && self.quality.as_ref().is_none_or(is_good)
    }

    /// What HELLOs say of it; `None` if nothing.
    pub(super) fn state(&self) -> Option<wire::Link> {
        match &self.quality {
            Some(Quality { lost: Some(_), .. }) => Some(wire::Link::Lost),
            Some(Quality { is_pending: true, .. }) => None,
            Some(_) | None if self.symmetric.is_some() => Some(wire::Link::Symmetric),
            Some(_) | None if self.heard.is_some() => Some(wire::Link::Asymmetric),
            Some(_) | None => Some(wire::Link::Lost),
        }
    }

    pub(super) fn next_timeout(&self) -> Time {
        let quality = self.quality.as_ref();
        let quality = quality.and_then(|it| earliest(it.lost, Some(it.overdue)));
        let state = earliest(self.symmetric, self.heard);
        earliest(state, quality).map_or(self.until, |due| due.min(self.until))
    }
}

impl Quality {
    /// Counts lost packets; the link is lost until `until` if they were too many.
    fn lose(&mut self, packets: u32, hysteresis: &Hysteresis, until: Time) {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.mean *= libm::pow(1.0 - hysteresis.scaling, f64::from(packets));
        if self.mean < hysteresis.low && !self.is_pending {
            self.is_pending = true;
            self.lost = Some(until);
        }
    }
}

//! Decides when startup has filled a path without a visible queue: more is sent, but no more
//! arrives.

use super::round::Ended;

/// A path that carries more lets the datagrams received in a round trip grow by this factor.
const GROWING: f64 = 1.25;
/// The path is full if it does not, and this part of the datagrams is lost beyond what was lost while it
/// did.
const EXCESS: f64 = 0.1;
/// The fewest datagrams of a round trip that tell.
const FEWEST: f64 = 16.0;

/// The round trips of startup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ramp {
    /// The most datagrams received in a round trip.
    most: f64,
    /// Datagrams sent and lost in the round trips in which more arrived than ever before.
    sent: f64,
    lost: f64,
}

/// What the path carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// Datagrams that may be in flight.
    pub(super) datagrams: f64,
    /// The loss rate before it was full.
    pub(super) loss: f64,
}

impl Ramp {
    /// Takes a round trip in which the window limited the sender.
    pub fn handle_round(&mut self, ended: &Ended) -> Option<Full> {
        let received = ended.sent - ended.lost;
        let loss = self.lost / self.sent.max(1.0);
        if received >= GROWING * self.most {
            self.most = received;
            self.sent += ended.sent;
            self.lost += ended.lost;
            return None;
        }
        let is_full = ended.sent >= FEWEST && ended.lost > (loss + EXCESS) * ended.sent;
        is_full.then(|| Full { datagrams: received.max(self.most) / (1.0 - loss), loss })
    }
}

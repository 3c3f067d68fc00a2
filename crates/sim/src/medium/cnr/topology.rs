//! Topology updates: each station reports its neighbours to the net.
//!
//! Routes over relays follow from actual hearing at the instant, as if all updates had arrived; updates
//! only cost time on the air.

use base::rng::Rng;
use base::time::nanos;

use super::airtime::AirTime;
use super::frame::{Frame, Precedence, Targets};
use super::hearing::Way;
use super::medium::{Medium, Step};
use super::outbox::Queued;

impl Medium {
    /// Plans the first update of a station, at a time of its own.
    pub(crate) fn plan_first_update(&mut self, station: usize, rng: &mut Rng) {
        if self.config.topology_spacing.is_zero() {
            return;
        }
        let at = nanos(rng.within(self.config.topology_spacing));
        self.plan(at, Step::Update { station });
    }

    /// Sends a topology update if the neighbours of a station differ from its last update.
    pub(crate) fn handle_update(&mut self, now: u64, station: usize) {
        let heard = self.ground.neighbours(now, station);
        let own = &mut self.stations[station];
        let is_news = std::mem::replace(&mut own.told, heard) != heard;
        if self.ground.changes() {
            let spacing = nanos(self.config.topology_spacing);
            self.plan(now + spacing, Step::Update { station });
        }
        if !is_news {
            return;
        }
        let octets = AirTime::update(self.stations.len());
        let (to, precedence) = (Targets::All, Precedence::Priority);
        let frame = Frame { token: 0, octets, to, precedence };
        let update = Queued {
            frame,
            origin: u8::try_from(station).expect("a net has fewer stations"),
            is_update: true,
            way: Way::default(),
            pending: to,
            number: 0,
            tries: 0,
            due: u64::MAX,
        };
        // One without room is dropped and counted like a packet; the next change brings another.
        let _ = self.enqueue(now, station, update);
    }
}

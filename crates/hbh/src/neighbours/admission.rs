//! Decides which stations become neighbours, and which have to go.

use base::time::Time;

use super::claims::Unfounded;
use super::neighbour::Neighbour;
use super::{ANSWER_SPREAD, Event, Neighbours, Place};
use crate::Peer;
use crate::hello::{Heard, Hello, Reception};

impl Neighbours {
    /// Whether a hello is the newest of its boot; the boot must be known at `place` already, or
    /// become known now.
    pub(super) fn is_counted(
        &mut self,
        now: Time,
        place: Place,
        hello: &Hello,
        us: Option<Heard>,
    ) -> bool {
        let session = self.sessions.number(place, hello.boot);
        let is_fresh = us.is_some_and(|us| us.echo == session);
        match self.known.get_mut(&place) {
            Some(known) if known.boot == hello.boot => {
                let is_newer = hello.counter > known.counter;
                self.stats.hellos_stale += u64::from(!is_newer);
                return is_newer;
            }
            // It may have been recorded before the one that is up started.
            Some(known) if known.peer.is_some() && !is_fresh => {
                let echo = us.map_or(0, |us| us.session);
                let reception = Reception::default();
                known.challenger = Some(Heard { boot: hello.boot, session, echo, reception });
                known.answer_at = Some(known.may_answer_at(now) + self.rng.within(ANSWER_SPREAD));
                return false;
            }
            Some(known) if known.peer.is_some() => self.forget(now, place),
            Some(_) => {
                self.known.remove(&place);
            }
            None => {}
        }
        self.make_room();
        self.known.insert(place, Neighbour::new(now, hello.boot, session));
        true
    }

    /// If too many stations are merely heard, forgets the one silent for longest.
    fn make_room(&mut self) {
        if self.known.len() - self.places.len() < self.config.limit {
            return;
        }
        let heard = self.known.iter().filter(|(_, neighbour)| neighbour.peer.is_none());
        if let Some((&oldest, _)) = heard.min_by_key(|(_, neighbour)| neighbour.heard) {
            self.known.remove(&oldest);
            self.stats.neighbours_evicted += 1;
        }
    }

    /// A goodbye counts when it belongs to the conversation that we have.
    pub(super) fn handle_goodbye(
        &mut self,
        now: Time,
        place: Place,
        hello: &Hello,
        us: Option<Heard>,
    ) {
        let Some(known) = self.known.get(&place) else { return };
        let is_ours = us.is_some_and(|us| us.echo == known.session);
        if known.boot == hello.boot && hello.counter > known.counter && is_ours {
            self.forget(now, place);
        } else {
            self.stats.hellos_stale += 1;
        }
    }

    pub(super) fn refuse(&mut self, place: Place, unfounded: Unfounded) {
        match unfounded {
            Unfounded::Disputed => {
                self.stats.hellos_disputed += 1;
                self.events.push_back(Event::Disputed(place));
            }
            Unfounded::Misplaced => {
                self.stats.hellos_misplaced += 1;
                self.events.push_back(Event::Misplaced(place));
            }
            Unfounded::Unlisted => self.stats.hellos_unlisted += 1,
        }
    }

    pub(super) fn bring_up(&mut self, now: Time, place: Place, addresses_changed: bool) {
        let is_new = self.known.get(&place).is_some_and(|known| known.peer.is_none());
        if is_new && self.places.len() >= self.config.limit && !self.displace(now) {
            self.stats.hellos_full += 1;
            return;
        }
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        let peer = match neighbour.peer {
            Some(_) if !addresses_changed => return,
            Some(peer) => peer,
            None => {
                let peer = Peer(self.next_peer);
                self.next_peer = self.next_peer.wrapping_add(1);
                neighbour.peer = Some(peer);
                neighbour.used = now;
                self.places.insert(peer, place);
                self.stats.neighbours_up += 1;
                peer
            }
        };
        self.by_address.retain(|_, of| *of != peer);
        for &address in &neighbour.addresses {
            self.by_address.insert((place.0, address), peer);
        }
        self.events.push_back(Event::Up(place, peer));
    }

    /// Makes room for one more neighbour: forgets the neighbour to which no packet was sent for
    /// longest, if the time is long. False when no neighbour can go.
    fn displace(&mut self, now: Time) -> bool {
        let up = self.known.iter().filter(|(_, neighbour)| neighbour.peer.is_some());
        let Some((&place, idle)) = up.min_by_key(|(_, neighbour)| neighbour.used) else {
            return false;
        };
        if now.since(idle.used) < self.config.hold {
            return false;
        }
        self.forget(now, place);
        true
    }

    /// Ends the conversation with a neighbour, if there is one; the next conversation has another
    /// number, so that messages of the old one do not count.
    pub(super) fn take_down(&mut self, now: Time, place: Place) {
        let Some(neighbour) = self.known.get_mut(&place) else { return };
        if let Some(peer) = neighbour.peer.take() {
            self.sessions.renew(now);
            neighbour.session = self.sessions.number(place, neighbour.boot);
            self.places.remove(&peer);
            self.by_address.retain(|_, of| *of != peer);
            self.stats.neighbours_down += 1;
            self.events.push_back(Event::Down(place, peer));
        }
    }

    pub(super) fn forget(&mut self, now: Time, place: Place) {
        self.take_down(now, place);
        self.known.remove(&place);
        // The session number that the station last heard from us must bring nobody up again.
        self.sessions.renew(now);
    }
}

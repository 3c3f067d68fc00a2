//! Decides when to ask for the name of a peer: at the start, and whenever the peer does not answer.
//!
//! The addresses of a name count only while the peer is not heard: a peer that is heard proves itself at its address.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::dns::{Failure, Name};
use base::time::Time;
use tunnel::secure::PeerId;

use crate::config::{self, Endpoint};

/// Between the first answer and the next question about a peer that is not heard; then twice as long each time.
const FIRST: Duration = Duration::from_secs(1);
/// Between an answer and the next question at most.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The name by which a peer is called, and the known addresses.
#[derive(Debug)]
pub(super) struct Naming {
    pub(super) name: Name,
    port: u16,
    /// What it had last; none before it was found.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) is_asking: bool,
    pub(super) ask_at: Time,
    wait: Duration,
    /// Why it was not found when it was asked for last.
    failure: Option<Failure>,
}

/// Names to ask name servers for.
pub(super) type Questions = VecDeque<(PeerId, Name)>;

impl Naming {
    /// The naming of a configured peer; `None` for a peer without a name.
    pub(super) fn of(now: Time, peer: &config::Peer) -> Option<Self> {
        let Some(Endpoint::Name(name, port)) = &peer.endpoint else { return None };
        Some(Self {
            name: name.clone(),
            port: *port,
            addresses: Vec::new(),
            is_asking: false,
            ask_at: now,
            wait: FIRST,
            failure: None,
        })
    }

    /// The name and the port.
    pub(super) fn text(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }

    /// Why it was not found when it was asked for last.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The peer is heard: its name does not matter until it is not any more.
    pub(super) fn rest(&mut self) {
        self.wait = FIRST;
    }

    /// When it may be asked for.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.is_asking).then_some(self.ask_at)
    }

    /// Takes what a question has brought; returns whether that is news.
    pub(super) fn handle_outcome(
        &mut self,
        now: Time,
        outcome: Result<Vec<IpAddr>, Failure>,
    ) -> bool {
        self.is_asking = false;
        self.ask_at = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST);
        match outcome {
            Ok(found) => {
                let found: Vec<_> =
                    found.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect();
                let had_failed = self.failure.take().is_some();
                let is_same = found.len() == self.addresses.len()
                    && found.iter().all(|it| self.addresses.contains(it));
                if !is_same {
                    self.addresses = found;
                }
                had_failed || !is_same
            }
            // The last known addresses are as good as any.
            Err(why) => self.failure.replace(why) != Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming() -> Naming {
        Naming {
            name: "vpn.example.org".parse().unwrap(),
            port: 7,
            addresses: Vec::new(),
            is_asking: false,
            ask_at: Time::ZERO,
            wait: FIRST,
            failure: None,
        }
    }

    fn found(addresses: &[&str]) -> Result<Vec<IpAddr>, Failure> {
        Ok(addresses.iter().map(|it| it.parse().unwrap()).collect())
    }

    #[test]
    fn questions_become_rare_and_frequent_again_once_the_peer_was_heard() {
        let mut naming = naming();
        let (mut now, mut waits) = (Time::ZERO, Vec::new());

        for _ in 0..9 {
            naming.is_asking = true;
            assert_eq!(naming.due(), None);
            let _ = naming.handle_outcome(now, Err(Failure::NoAnswer));
            let due = naming.due().unwrap();
            waits.push(due.since(now).as_secs());
            now = due;
        }
        naming.rest();
        let _ = naming.handle_outcome(now, found(&["192.0.2.2"]));

        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(naming.due(), Some(now + FIRST));
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut naming = naming();
        let both = found(&["192.0.2.2", "fd00::2"]);
        let turned = found(&["fd00::2", "192.0.2.2"]);
        let (none, refused) = (Err(Failure::NoSuchName), Err(Failure::NoAnswer));

        let told: Vec<_> = [
            none.clone(),
            none.clone(),
            refused.clone(),
            both.clone(),
            turned,
            none.clone(),
            none,
            both,
            found(&["192.0.2.2"]),
        ]
        .map(|outcome| naming.handle_outcome(Time::ZERO, outcome))
        .into();

        assert_eq!(told, [true, false, true, true, false, true, false, true, true]);
        assert_eq!(naming.addresses, ["192.0.2.2:7".parse().unwrap()]);
        assert_eq!((naming.failure(), &naming.text()[..]), (None, "vpn.example.org:7"));
    }

    #[test]
    fn a_name_that_is_not_found_any_more_keeps_its_addresses() {
        let mut naming = naming();
        let _ = naming.handle_outcome(Time::ZERO, found(&["192.0.2.2"]));

        let _ = naming.handle_outcome(Time::ZERO, Err(Failure::NoAnswer));

        assert_eq!(naming.addresses, ["192.0.2.2:7".parse().unwrap()]);
        assert_eq!(naming.failure(), Some(Failure::NoAnswer));
    }
}

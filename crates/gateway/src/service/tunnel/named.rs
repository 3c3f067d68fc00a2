//! Peers that are called by a name: their names are asked for while they do not answer.

use std::net::IpAddr;

use base::dns::{Failure, Name};
use base::time::{Time, earliest};
use tracing::{info, warn};
use tunnel::secure::PeerId;

use super::naming::{LONGEST, Naming};
use super::state::{Link, Session, State};

impl State {
    /// Notes whose names are to be asked for now.
    pub(super) fn ask_names(&mut self, now: Time) {
        let mut questions = Vec::new();
        for link in self.links_mut() {
            let is_heard = link.is_heard();
            let Some(naming) = &mut link.naming else { continue };
            if is_heard {
                naming.rest();
            } else if naming.due().is_some_and(|due| due <= now) {
                naming.is_asking = true;
                questions.push((link.peer, naming.name.clone()));
            }
        }
        self.questions.extend(questions);
    }

    /// When [`Self::ask_names`] has something to do.
    pub(super) fn next_question(&self) -> Option<Time> {
        let silent = self.links().filter(|link| !link.is_heard());
        let due = silent.filter_map(|link| link.naming.as_ref());
        due.map(Naming::due).fold(None, earliest)
    }

    /// A name has these addresses, or none. To be told by its peer, who may have another name by now.
    pub(super) fn handle_resolved(
        &mut self,
        now: Time,
        (peer, name): (PeerId, &Name),
        outcome: Result<Vec<IpAddr>, Failure>,
    ) {
        let Some(Link { config, naming: Some(naming), .. }) = self.link_mut(peer) else { return };
        if naming.name != *name || !naming.is_asking {
            return;
        }
        let is_news = naming.handle_outcome(now, outcome);
        let (endpoint, again) = (naming.text(), naming.ask_at.since(now));
        let addresses = naming.addresses.clone();
        match naming.failure() {
            Some(why) if is_news && addresses.is_empty() => warn!(
                peer = %config.name,
                %endpoint,
                %why,
                "the peer's name has no address; asking again in {} s, then at most every {} s, until it has",
                again.as_secs(),
                LONGEST.as_secs()
            ),
            Some(why) if is_news => warn!(
                peer = %config.name,
                %endpoint,
                %why,
                "the peer's name is not found any more; going on with the addresses that it had, and asking again"
            ),
            None if is_news => {
                info!(peer = %config.name, %endpoint, ?addresses, "the peer's name has these addresses");
            }
            Some(_) | None => {}
        }
        if !addresses.is_empty() {
            self.peers.handle_endpoints(now, peer, &addresses);
            self.note_endpoints();
        }
    }
}

impl Link {
    /// Whether there are keys, and the peer owes no answer.
    pub(super) fn is_heard(&self) -> bool {
        let is_heard = |session: &Session| session.has_keys && session.is_up && !session.is_silent;
        self.session.as_ref().is_some_and(is_heard)
    }
}

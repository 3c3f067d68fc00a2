//! Logs calls that come to nothing, with the likely reasons and the remedy.

use std::net::SocketAddr;

use tracing::{info, warn};
use tunnel::secure::{PublicKey, Trouble};

/// A peer has not answered for a while. From here it cannot be told why.
pub(super) fn no_answer(peer: &str, endpoint: SocketAddr, left_out: u64) {
    warn!(
        peer,
        %endpoint,
        left_out,
        "peer does not answer; trying on. Possible reasons: it does not run, or is not there; UDP is \
         blocked on the way; its public-key is not what our file says, or ours is not what its file \
         says: the log over there says which"
    );
}

/// Somebody calls whom no peer's key belongs to.
pub(super) fn stranger(from: SocketAddr, key: Option<PublicKey>) {
    match key {
        Some(key) => warn!(
            %from,
            %key,
            "call by an unknown key, not answered: if this is a peer, its public-key in our file is wrong"
        ),
        None => info!(
            %from,
            "call for another key than ours, not answered: if this is a peer, the public-key that its \
             file has for us is wrong"
        ),
    }
}

/// A peer is there, and calls come to nothing all the same.
pub(super) fn trouble(peer: &str, from: SocketAddr, what: Trouble, left_out: u64) {
    match what {
        Trouble::Clock => info!(
            peer,
            %from,
            left_out,
            "peer has heard a later time of us before: the clock here went back; calling it with a later one"
        ),
        Trouble::Unconfirmed => warn!(
            peer,
            %from,
            left_out,
            "peer calls again and again, and takes no answer: its preshared-key is not ours, or what we \
             send does not arrive there"
        ),
        Trouble::Unreadable => warn!(
            peer,
            %from,
            left_out,
            "peer answers what cannot be read: is preshared-key the same on both sides?"
        ),
    }
}

//! The gateway's state that every peer needs, and the peers' output for the driver.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::entropy::Entropy;
use base::rng::Rng;
use base::time::Time;

use super::guard::cookie_key;
use super::keys::{PrivateKey, PublicKey};
use super::mac::{is_mac, mac_key};
use super::open::Table;
use super::wire::{Datagram, MAC};
use super::{Incarnation, PeerId};
use crate::PathId;

/// Datagrams and events that may wait: so many, and more for each peer.
const ROOM: usize = 64;
const ROOM_PER_PEER: usize = 4;
/// A change of the wall clock that is no correction: corrections are gradual, or happen on a machine
/// that has just started.
const JUMP: Duration = Duration::from_secs(1);

/// A datagram of our own: handshake or keepalive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// Where it goes.
    pub to: SocketAddr,
    /// Its octets.
    pub datagram: Vec<u8>,
    /// Asks for another port of ours than the peer's datagrams leave from otherwise.
    pub fresh: Option<Fresh>,
}

impl Outgoing {
    /// Whether it belongs to a handshake; other datagrams are keepalives.
    #[must_use]
    pub fn is_handshake(&self) -> bool {
        Datagram::parse(&self.datagram).is_ok_and(|it| it.is_handshake())
    }
}

/// A call to be sent from a port not used before: an address translator on the way may have a dead mapping for the
/// usual port, and each call from there keeps the mapping. Answers to either port count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fresh {
    /// Who is called.
    pub peer: PeerId,
    /// Which port since calls are in vain, from 1: another number asks for another port.
    pub number: u64,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Keys were agreed on.
    Established {
        /// With whom.
        peer: PeerId,
        /// The peer's life.
        incarnation: Incarnation,
        /// It is another life than before: the core has to be made anew. Otherwise it is kept.
        is_new: bool,
    },
    /// The peer is heard from another address.
    EndpointChanged {
        /// Who.
        peer: PeerId,
        /// Where it is now.
        endpoint: SocketAddr,
    },
    /// The peer is heard on a further path, from another address than before or for the first time there. Datagrams of
    /// the path go there, although the peer has not proved the address.
    Further {
        /// Who.
        peer: PeerId,
        /// On which path.
        path: PathId,
        /// Where it is heard.
        endpoint: SocketAddr,
    },
    /// The last keys are too old: nothing can be sealed until the next [`Event::Established`].
    Expired {
        /// Whose keys.
        peer: PeerId,
    },
    /// The peer has not answered calls for a while, told once until it does. They go on if its address is configured.
    Unanswered {
        /// Who.
        peer: PeerId,
        /// Where it is called.
        endpoint: SocketAddr,
    },
    /// Somebody calls who is no peer; told seldom.
    Stranger {
        /// From where.
        from: SocketAddr,
        /// With which key; `None` if the call was made for another key than ours.
        key: Option<PublicKey>,
    },
    /// A call made with our public key cannot be read, perhaps because the caller's program has another version of
    /// the handshake; told seldom.
    Unreadable {
        /// From where.
        from: SocketAddr,
    },
    /// Calls come to nothing for a known reason; each reason is reported once until calls succeed.
    Trouble {
        /// The peer that calls, or is called, in vain.
        peer: PeerId,
        /// Where that peer is.
        from: SocketAddr,
        /// The reason.
        what: Trouble,
    },
}

/// Why calls come to nothing though both ends hear each other.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Trouble {
    /// Our clock went back: the peer has heard a later time from us before. We call the peer with a still later time.
    Clock,
    /// The peer calls again and again, and takes no answer: it has another preshared key, or what we send
    /// does not arrive.
    Unconfirmed,
    /// The peer's answer cannot be read: it has another preshared key.
    Unreadable,
}

impl Event {
    /// Which peer it is about; `None` if none.
    #[must_use]
    pub fn peer(&self) -> Option<PeerId> {
        match *self {
            Self::EndpointChanged { peer, .. }
            | Self::Established { peer, .. }
            | Self::Further { peer, .. }
            | Self::Expired { peer }
            | Self::Unanswered { peer, .. }
            | Self::Trouble { peer, .. } => Some(peer),
            Self::Stranger { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// A key of ours, and the keys derived from it.
pub struct Identity {
    private_key: PrivateKey,
    public_key: PublicKey,
    mac_key: [u8; 32],
    cookie_key: [u8; 32],
}

impl Identity {
    fn new(private_key: &PrivateKey) -> Self {
        let public_key = private_key.public_key();
        Self {
            private_key: private_key.clone(),
            public_key,
            mac_key: mac_key(&public_key),
            cookie_key: cookie_key(&public_key),
        }
    }

    pub fn public_key(&self) -> PublicKey {
        self.public_key
    }

    /// Seals cookies for who calls this key.
    pub fn cookie_key(&self) -> &[u8; 32] {
        &self.cookie_key
    }
}

/// What every peer's part needs of the gateway.
pub struct Local {
    /// Our key, and the previous one while peers may still use it.
    identities: Vec<Identity>,
    table: Arc<Table>,
    rng: Rng,
    entropy: Box<dyn Entropy>,
    started: Time,
    unix: Duration,
    /// What the wall clock said was the time at [`Time::ZERO`], when it was last asked.
    epoch: Option<Duration>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    room: usize,
    /// Datagrams and events for which there was none.
    overflow: u64,
}

impl Local {
    /// A gateway without peers; `unix` is the time since 1970.
    pub fn new(
        now: Time,
        unix: Duration,
        private_key: &PrivateKey,
        rng: Rng,
        entropy: Box<dyn Entropy>,
    ) -> Self {
        Self {
            identities: vec![Identity::new(private_key)],
            table: Table::new(),
            rng,
            entropy,
            started: now,
            unix,
            epoch: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            room: ROOM,
            overflow: 0,
        }
    }

    /// The wall clock says that `unix` has passed since 1970; whether it has jumped since it was last
    /// asked.
    pub fn has_jumped(&mut self, now: Time, unix: Duration) -> bool {
        let epoch = unix.saturating_sub(now.since(Time::ZERO));
        let before = self.epoch.replace(epoch);
        before.is_some_and(|before| before.abs_diff(epoch) >= JUMP)
    }

    /// Our keys, the newest first.
    pub fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// These keys are ours from now on, the newest first.
    pub fn set_identities<'a>(&mut self, keys: impl Iterator<Item = &'a PrivateKey>) {
        self.identities = keys.map(Identity::new).collect();
    }

    /// Whether a public key is ours.
    pub fn is_ours(&self, key: &PublicKey) -> bool {
        self.identities.iter().any(|identity| identity.public_key == *key)
    }

    /// A private key of ours, the newest having the place 0, and the source of randomness for what is made with it.
    pub fn private_key_and_entropy(&mut self, place: usize) -> (&PrivateKey, &mut dyn Entropy) {
        (&self.identities[place].private_key, &mut *self.entropy)
    }

    /// The place of our key for which a message was made, by its `mac1`.
    pub fn addressed(&self, before_mac1: &[u8], mac1: &[u8; MAC]) -> Option<usize> {
        self.identities.iter().position(|identity| is_mac(&identity.mac_key, before_mac1, mac1))
    }

    /// The receive keys of all sessions.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub fn entropy(&mut self) -> &mut dyn Entropy {
        &mut *self.entropy
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// Drops the events about a peer.
    pub fn drop_events(&mut self, peer: PeerId) {
        self.events.retain(|event| event.peer() != Some(peer));
    }

    /// Datagrams and events for which there was no room.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Makes room for one more peer.
    pub fn grow(&mut self) {
        self.table.grow();
        self.room += ROOM_PER_PEER;
    }

    /// The timestamp of a call, in nanoseconds since 1970: the clock at the start, plus the time
    /// passed since. So it never goes back, whatever happens to the clock. A clock beyond the year
    /// 2100 is not believed: peers that heard such a time would refuse all calls afterwards.
    pub fn timestamp(&self, now: Time) -> u64 {
        const LATEST: Duration = Duration::from_secs(4_102_444_800);
        let unix = if self.unix < LATEST { self.unix } else { Duration::ZERO };
        let time = unix.saturating_add(now.since(self.started));
        u64::try_from(time.as_nanos()).unwrap_or(0)
    }

    pub fn send(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        self.send_from(None, to, datagram);
    }

    /// Sends from a fresh port, if one is asked for.
    pub fn send_from(&mut self, fresh: Option<Fresh>, to: SocketAddr, datagram: Vec<u8>) {
        if self.outgoing.len() < self.room {
            self.outgoing.push_back(Outgoing { to, datagram, fresh });
        } else {
            self.overflow += 1;
        }
    }

    pub fn tell(&mut self, event: Event) {
        if self.events.len() < self.room {
            self.events.push_back(event);
        } else {
            self.overflow += 1;
        }
    }
}

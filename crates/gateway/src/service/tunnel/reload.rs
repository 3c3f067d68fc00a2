//! Another configuration: peers come and go, the sessions of the others go on.

use std::sync::{Arc, PoisonError};

use base::ip::Prefix;
use tunnel::secure::{self, PeerId, Routes};

use super::state::{Link, State};
use super::{Tunnel, behind, lock};
use crate::config;
use crate::service::Reload;

impl Tunnel {
    /// # Errors
    /// When a key file cannot be used, or the kernel refuses a route. Nothing has changed then.
    pub(super) fn follow(&mut self, config: &config::Tunnel) -> anyhow::Result<Reload> {
        let config::Keys { private_key, peers: keys } = config.keys()?;
        if private_key != self.private_key || !is_same_but_peers(&self.config, config) {
            return Ok(Reload::Restart);
        }
        {
            let mut reconciler = lock(&self.shared.reconciler);
            let endpoints = reconciler.endpoints();
            reconciler.follow(vec![behind(config, &lock(&self.shared.device), endpoints)])?;
        }
        let wanted: Vec<_> = config.peers.iter().zip(&keys).collect();
        let changes = self.follow_peers(&wanted);
        self.config = config.clone();
        Ok(Reload::Taken(changes))
    }

    fn follow_peers(&self, wanted: &[(&config::Peer, &secure::Peer)]) -> Vec<String> {
        let mut changes = Vec::new();
        let mut state = self.shared.state();
        let now = self.shared.now();
        let here: Vec<_> =
            state.links().map(|link| (link.peer, link.config.clone(), link.keys.clone())).collect();
        for (peer, config, keys) in &here {
            let same =
                wanted.iter().find(|(wanted, its)| is_same_peer(config, wanted) && *its == keys);
            match same {
                None => {
                    state.remove_peer(*peer);
                    changes.push(format!("peer {} left", config.name));
                }
                Some((wanted, _)) if wanted.routes != config.routes => {
                    state.set_routes(*peer, &wanted.routes);
                    changes.push(format!("peer {} has other routes", config.name));
                }
                Some(_) => {}
            }
        }
        for (config, keys) in wanted {
            if here.iter().any(|(_, other, its)| is_same_peer(other, config) && its == *keys) {
                continue;
            }
            state.add_peer(now, config, keys).expect("a checked configuration has fit peers");
            changes.push(format!("peer {} added", config.name));
        }
        let routes = Arc::new(state.routes());
        *self.shared.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
        self.shared.settle(state, now);
        changes
    }
}

impl State {
    /// Other networks are behind a peer.
    pub(super) fn set_routes(&mut self, peer: PeerId, routes: &[Prefix]) {
        if let Some(link) = self.link_mut(peer) {
            link.config.routes = routes.to_vec();
        }
    }

    /// Which peer an inner address belongs to.
    pub(super) fn routes(&self) -> Routes {
        let of_link = |link: &Link| {
            let (peer, routes) = (link.peer, link.config.routes.clone());
            routes.into_iter().map(move |route| (peer, route))
        };
        let routes: Vec<_> = self.links().flat_map(of_link).collect();
        Routes::new(&routes).expect("a checked configuration has each network once")
    }
}

/// Whether all but the peers is the same.
fn is_same_but_peers(one: &config::Tunnel, other: &config::Tunnel) -> bool {
    let peerless = |tunnel: &config::Tunnel| config::Tunnel { peers: Vec::new(), ..tunnel.clone() };
    peerless(one) == peerless(other)
}

/// Whether a peer is the same, wherever its networks are.
fn is_same_peer(one: &config::Peer, other: &config::Peer) -> bool {
    let routeless = |peer: &config::Peer| config::Peer { routes: Vec::new(), ..peer.clone() };
    routeless(one) == routeless(other)
}

/// The networks behind all peers, each with the name of its peer.
pub(super) fn routes(config: &config::Tunnel) -> Vec<(String, Prefix)> {
    let of_peer = |peer: &config::Peer| {
        let (name, routes) = (peer.name.clone(), peer.routes.clone());
        routes.into_iter().map(move |route| (name.clone(), route))
    };
    config.peers.iter().flat_map(of_peer).collect()
}

//! Finds the interface by which a host's packets enter, from the kernel's routes.
//!
//! A TUN device does not say where a packet came from. So we take the interface of the route to the packet's source,
//! `lo` for this host itself. With strict reverse path filtering no other interface lets it in.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;
use nix::net::if_::if_indextoname;

use super::routes::{NextHop, Routes};

/// Hosts that are remembered; when one more is asked for, all are forgotten.
const LIMIT: usize = 1_024;
/// How long an answer holds: routes change.
const LASTS: Duration = Duration::from_secs(5);
const OWN: &str = "lo";

/// Asks the kernel, and remembers for a while.
#[derive(Debug)]
pub(crate) struct Entrances {
    routes: Routes,
    known: BTreeMap<IpAddr, (Time, Option<String>)>,
}

impl Entrances {
    /// Opens a socket.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { routes: Routes::open()?, known: BTreeMap::new() })
    }

    /// The interface that a packet with this source came by; `None` when no route leads there.
    pub(crate) fn find(&mut self, now: Time, source: IpAddr) -> Option<&str> {
        if self.known.get(&source).is_none_or(|(asked, _)| now.since(*asked) >= LASTS) {
            let interface = match self.routes.towards(source) {
                NextHop::Here => Some(OWN.to_owned()),
                NextHop::Neighbour { interface, .. } => {
                    let name = if_indextoname(interface).ok();
                    name.and_then(|name| name.into_string().ok())
                }
                NextHop::Nowhere => None,
            };
            if self.known.len() >= LIMIT {
                self.known.clear();
            }
            self.known.insert(source, (now, interface));
        }
        self.known.get(&source)?.1.as_deref()
    }
}

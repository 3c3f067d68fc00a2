//! How packets find the tunnel, and what becomes of them without it: routes, rules, and this host's own
//! addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use anyhow::{Context as _, bail};
use nix::libc;
use proto::ip::Prefix;
use tracing::warn;

use super::{Shared, lock, reload};
use crate::config;
use crate::linux::claims::{Claims, Wish, rivals};
use crate::linux::device::Device;
use crate::linux::links;
use crate::linux::netlink::{Monitor, Netlink};
use crate::linux::settings::Settings;

/// Datagrams of the kernel's that are read before packets have their turn.
const READS: usize = 64;

/// The routes and rules of the tunnel.
pub(super) struct Ways {
    netlink: Netlink,
    claims: Claims,
    wish: Wish,
    /// The device's name.
    device: String,
    /// Interfaces that would refuse what comes from the peers, because it would not go back by them.
    loosened: Settings,
}

impl Ways {
    /// Claims the routes to the peers' networks; what an earlier run has left is taken over.
    ///
    /// # Errors
    /// When one is taken or refused, with the remedy.
    pub(super) fn open(
        config: &config::Tunnel,
        device: &Device,
        endpoints: BTreeSet<IpAddr>,
    ) -> anyhow::Result<Self> {
        let wish = Wish {
            device: device.index(),
            own: config.addresses.clone(),
            endpoints,
            is_open: config.fail_open,
            ..Wish::default()
        };
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        let claims = Claims::open().context("cannot ask the kernel")?;
        let (device_name, loosened) = (config.device.clone(), Settings::default());
        let mut ways = Self { netlink, claims, wish, device: device_name, loosened };
        ways.follow(config, device)?;
        Ok(ways)
    }

    /// Other networks are behind the peers.
    ///
    /// # Errors
    /// When a route is taken or refused, with the remedy. All is as before then.
    pub(super) fn follow(
        &mut self,
        config: &config::Tunnel,
        device: &Device,
    ) -> anyhow::Result<()> {
        let routes = reload::routes(config);
        let mut wish = self.wish.clone();
        wish.routes = routes.iter().map(|(_, route)| *route).collect();
        wish.taken.retain(|taken| wish.routes.iter().any(|route| route.network() == *taken));
        wish.taken.extend(self.taken(config, &routes)?);
        let called = config.peers.iter().filter_map(|peer| peer.endpoint.as_ref()?.address());
        wish.endpoints.extend(called.map(|endpoint| endpoint.ip().to_canonical()));
        if wish.routes.iter().any(|route| route.address().is_ipv6()) {
            device.enable_v6();
        }
        self.claims.set(wish.plan()).context("the routes to the peers")?;
        self.wish = wish;
        self.loosen();
        Ok(())
    }

    /// Which of the new routes take the place of another's.
    fn taken(
        &mut self,
        config: &config::Tunnel,
        routes: &[(String, Prefix)],
    ) -> anyhow::Result<Vec<Prefix>> {
        let is_new = |(_, route): &&(String, Prefix)| !self.wish.routes.contains(route);
        let new: Vec<_> = routes.iter().filter(is_new).cloned().collect();
        let networks: Vec<_> = new.iter().map(|(_, route)| *route).collect();
        let rivals = rivals(&mut self.netlink, self.wish.device, &networks)
            .context("cannot ask for routes")?;
        if let Some((network, rival)) = rivals.first_key_value().filter(|_| !config.replace_routes)
        {
            let its = new.iter().find(|(_, route)| route.network() == *network);
            let owner = its.map_or("a peer", |(owner, _)| owner);
            bail!(
                "the route of {owner} to {network}: there is one already, `{rival}`: remove it with \
                 `ip route delete {rival}`, or let ours take its place while the tunnel runs with \
                 tunnel.replace-routes = true"
            );
        }
        Ok(rivals.into_keys().collect())
    }

    /// The tunnel itself sends to these.
    pub(super) fn set_endpoints(&mut self, endpoints: BTreeSet<IpAddr>) {
        let wish = Wish { endpoints, ..self.wish.clone() };
        let plan = wish.plan();
        self.wish = wish;
        if self.claims.is(&plan) {
            return;
        }
        if let Err(why) = self.claims.set(plan) {
            warn!(why = %format!("{why:#}"), "routes to the peers do not follow their addresses");
        }
        self.loosen();
    }

    /// Where the datagrams of the peers may come by: without our mark the way back to them is the tunnel,
    /// and interfaces that filter by the way back would drop them.
    fn loosen(&mut self) {
        if !self.wish.has_rules() {
            return;
        }
        let of_all = Settings::read("all", "rp_filter").unwrap_or_default();
        for name in Settings::interfaces() {
            let its = Settings::read(&name, "rp_filter").unwrap_or_default();
            // The greater of both counts.
            if name != self.device && its.max(of_all.clone()) == "1" {
                self.loosened.set(&name, "rp_filter", "2");
            }
        }
    }
}

/// What the kernel tells of changes, and what we do then.
pub(super) struct Changes {
    pub(super) monitor: Monitor,
    netlink: Netlink,
    is_up: bool,
}

/// What has changed.
#[derive(Default)]
struct News {
    routes: bool,
    addresses: bool,
    links: bool,
}

impl Changes {
    /// # Errors
    /// When there are no descriptors left.
    pub(super) fn open() -> anyhow::Result<Self> {
        let monitor = Monitor::open().context("cannot hear of changes")?;
        let netlink = Netlink::open().context("cannot ask the kernel")?;
        Ok(Self { monitor, netlink, is_up: true })
    }

    /// Reads what has changed, puts back what is missing, and learns this host's addresses.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn handle(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let mut ways = lock(&shared.ways);
        let mut news = News::default();
        let Self { monitor, is_up, .. } = self;
        let is_lossy = monitor
            .read_some(READS, |message| {
                news.routes |= ways.claims.is_concerned(message);
                news.addresses |= matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR);
                if let Some((index, now_up)) = links::up(message) {
                    news.links = true;
                    if index == ways.wish.device {
                        // IPv4's routes go without a word when the device goes down.
                        news.routes |= now_up && !*is_up;
                        *is_up = now_up;
                    }
                }
            })
            .context("cannot hear of changes")?;
        if news.routes || is_lossy {
            if self.is_up {
                lock(&shared.device).restore();
            }
            let restored = ways.claims.reconcile().context("cannot ask for routes")?;
            shared.counters.routes_restored.add(restored);
        }
        if news.links || is_lossy {
            ways.loosen();
        }
        drop(ways);
        if news.addresses || is_lossy {
            self.learn(shared)?;
        }
        Ok(())
    }

    /// Learns this host's addresses.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn learn(&mut self, shared: &Shared) -> anyhow::Result<()> {
        let own = links::own_addresses(&mut self.netlink).context("cannot ask for addresses")?;
        *shared.own.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(own);
        Ok(())
    }
}

//! Interfaces that come, go and change, by the kernel's word or another configuration's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use base::ip::Prefix;
use base::time::{Time, earliest};
use host::fault::{self, Fault};
use host::fib::{self, Hop};
use host::links::{self, LinkState};
use host::routes::{NextHop, Packets, Routes};
use manet::Neighbour;
use nix::libc;
use tracing::{debug, info};

use super::ports::Port;
use super::{Config, Demand, Kernel, Reload, Routing, Settings, UDP_ONLY};
use crate::config;
use crate::linux::manet::deafness;
use crate::service::Absent;

/// Changes that come together are acted on together.
pub const SETTLE: Duration = Duration::from_millis(20);
/// Between two looks at the settings of interfaces.
pub const PREPARE: Duration = Duration::from_millis(500);
/// Between two looks for what is missing.
pub const RETRY: Duration = Duration::from_secs(2);

/// Routes of ours for which the kernel is asked where packets go.
const TRIED: usize = 32;

/// Refuses an interface that does not exist.
///
/// # Errors
/// With the remedy.
pub fn expect(kernel: &mut Kernel, name: &str) -> anyhow::Result<()> {
    if LinkState::read(kernel, name)?.is_none() {
        anyhow::bail!(Absent(format!(
            "there is no interface {name}: `ip link` lists those that exist"
        )));
    }
    Ok(())
}

impl Routing {
    /// Looks at all interfaces, and tells the protocol what is different.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn look(&mut self, now: Time) -> anyhow::Result<()> {
        let port = self.host.carrier().port().context(UDP_ONLY)?;
        let mut has_changed = false;
        let indexes: BTreeMap<_, _> =
            self.ports.iter().map(|(position, port)| (position, port.index())).collect();
        for (position, name) in self.ports.named() {
            let (is_other, why) =
                self.ports.look(&mut self.kernel, position, self.config.manet, port);
            if !is_other {
                continue;
            }
            has_changed = true;
            match (self.ports.get(position), why) {
                (Some(port), _) => {
                    let (address, mtu) = (port.address(), port.mtu());
                    let is_another =
                        indexes.get(&position).is_some_and(|before| *before != port.index());
                    info!(interface = %name, %address, "interface is used");
                    prepare(&mut self.settings, &name);
                    if is_another {
                        // The interface of this name before is gone, with its neighbours and routes.
                        self.host.handle_interface(now, position, None);
                        self.take_events(now);
                    }
                    self.host.handle_interface(now, position, Some((address, mtu)));
                }
                (None, why) => {
                    info!(interface = %name, why = why.unwrap_or_default(), "interface is waited for");
                    self.host.handle_interface(now, position, None);
                }
            }
            self.take_events(now);
        }
        self.look_at = (!self.ports.is_complete()).then_some(now + RETRY);
        if has_changed {
            let source = self.host.interfaces().next().map(|(_, address, _)| address);
            self.fib.set_source(source).context("cannot ask for the kernel's routes")?;
            // The kernel removes routes by an interface or address that goes, and does not say so.
            self.pace.ask(now + SETTLE);
        }
        if let Some(demand) = &mut self.demand {
            demand.refresh(&mut self.kernel, &self.config, &mut self.host, &mut self.fib)?;
        }
        Ok(())
    }

    /// Takes what the kernel says has changed of links, neighbours, addresses and routes.
    pub fn take_changes(&mut self, now: Time) {
        let Self { changes, fib, ports, demand, config, .. } = self;
        let attached = config.protocol.attached();
        let mut has_ways = false;
        let device = demand.as_ref().map(Demand::device);
        let (mut has_links, mut has_routes, mut has_settings) = (false, false, false);
        let mut silent = Vec::new();
        let is_lossy = changes.read(usize::MAX, |message| {
            has_links |= links::subject(message).is_some();
            has_routes |= fib.is_concerned(message);
            has_ways |= attached.iter().any(|network| fib::leads_to(message, network));
            has_settings |= message.kind == libc::RTM_NEWNETCONF;
            // IPv4's routes go without a word with the last address of their interface or of AODV's device.
            has_routes |= message.kind == libc::RTM_DELADDR;
            // IPv4's routes go without a word when an interface goes down, even if it is up again at once.
            has_routes |= links::up(message).is_some_and(|(index, is_up)| {
                if is_up { device == Some(index) } else { ports.with_index(index).is_some() }
            });
            if let Some((index, IpAddr::V4(address))) = links::silent_neighbour(message)
                && let Some(interface) = ports.with_index(index)
            {
                silent.push(Neighbour { interface, address });
            }
        });
        if has_links || is_lossy {
            self.look_at = earliest(self.look_at, Some(now + SETTLE));
        }
        if has_routes || is_lossy {
            self.pace.ask(now + SETTLE);
        }
        if !attached.is_empty() && (has_ways || has_links || is_lossy) {
            self.reach_at = earliest(self.reach_at, Some(now + SETTLE));
        }
        if has_settings || is_lossy {
            self.prepare_at = earliest(self.prepare_at, Some(now + SETTLE));
        }
        for neighbour in silent {
            debug!(neighbour = %neighbour.address, "neighbour does not answer");
            self.counters.neighbours_silent += 1;
            self.host.handle_break(now, neighbour);
            self.take_events(now);
        }
    }

    /// Finds the attached networks in reach: other nodes must not send us packets for networks out of reach.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn look_behind(&mut self, now: Time) -> anyhow::Result<()> {
        self.reach_at = None;
        let attached = self.config.protocol.attached();
        if attached.is_empty() {
            return Ok(());
        }
        let reached = fib::reached(&mut self.kernel, &attached);
        let reached = reached.context("cannot ask for the kernel's routes")?;
        if reached != self.reached {
            let all: Vec<String> = reached.iter().map(ToString::to_string).collect();
            let networks = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            info!(%networks, "networks behind this node that are announced");
            self.host.handle_attached(now, &reached);
            self.reached = reached;
            self.take_events(now);
        }
        Ok(())
    }

    /// The attached networks that this host does not reach.
    pub fn faults_behind(&self) -> impl Iterator<Item = Fault> {
        let is_lost = |network: &Prefix| !self.reached.contains(network);
        let lost = self.config.protocol.attached().into_iter().filter(is_lost);
        lost.map(|network| {
            let said = format!(
                "{network} is behind this node, and no route leads there by a link that is up: it is not \
                 announced; `ip route add {network} via ROUTER` makes one"
            );
            Fault::new(&fault::UPLINK, said)
        })
    }

    /// Interfaces on which nobody new is heard.
    pub fn faults_of_filters(&self) -> impl Iterator<Item = Fault> {
        let deaf = |(position, port): (usize, &Port)| {
            let (what, remedy) = deafness(self.ports.name(position), port.address())?;
            Some(Fault::new(&fault::SETTING, format!("{what}; {remedy}")))
        };
        self.ports.iter().filter_map(deaf)
    }

    /// Our routes before which a rule of another program decides; the kernel is asked for the first ones. Another's route
    /// to the same network is no fault: ours have the worse metric.
    pub fn overruled(&self) -> Option<Fault> {
        let mut kernel = Routes::open().ok()?;
        let mut is_past = |to: Prefix, hop: Hop| {
            let decided = kernel.decided(to.address(), &Packets::default());
            decided.is_ok_and(|(way, bits)| {
                way == NextHop::Nowhere
                    || (bits < to.bits() && way.interface() != Some(hop.interface))
            })
        };
        let first = self.host.routes().into_iter().take(TRIED);
        let ours = first.filter_map(|(to, route)| Some((to, self.hop(&route)?)));
        let (past, _) = ours.into_iter().find(|(to, hop)| is_past(*to, *hop))?;
        // Not all of them: a text that changes with each route is a fault that ends and comes again.
        let example = past.address();
        let said = format!(
            "packets, such as those to {past}, do not go by our routes: another program's rule, or its route that \
             refuses, decides before them; `ip rule` and `ip route show table all match {example}` show it, delete it"
        );
        Some(Fault::new(&fault::OVERRULED, said))
    }

    /// Gives the interfaces their settings again, if somebody has changed them; whoever does that all the time finds
    /// them changed back now and then.
    pub fn prepare(&mut self, now: Time) {
        // The kernel tells of forwarding and reverse path filters alone.
        self.prepare_at = Some(now + PREPARE);
        if !self.preparations.spend(now) {
            return;
        }
        let used: Vec<_> = self.ports.iter().map(|(position, _)| position).collect();
        for position in used {
            prepare(&mut self.settings, self.ports.name(position));
        }
    }

    /// Takes another configuration: interfaces come and go, all else begins anew.
    ///
    /// # Errors
    /// When a new interface is absent.
    pub fn follow(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        let Some(wanted) = &config.routing else { return Ok(Reload::Restart) };
        let is_new = |name: &&String| !self.config.interfaces.contains(name);
        let come: Vec<_> = wanted.interfaces.iter().filter(is_new).cloned().collect();
        for name in &come {
            expect(&mut self.kernel, name)?;
        }
        let with_ours =
            config::Routing { interfaces: self.config.interfaces.clone(), ..wanted.clone() };
        // The firewall's table of a protocol on demand names the interfaces.
        let is_same = with_ours == self.config;
        if !is_same || (self.demand.is_some() && wanted.interfaces != self.config.interfaces) {
            return Ok(Reload::Restart);
        }

        let mut changes = Vec::new();
        for (position, name) in self.ports.named() {
            if !wanted.interfaces.contains(&name) {
                self.ports.remove(position);
                self.host.handle_interface(now, position, None);
                self.take_events(now);
                changes.push(format!("interface {name} left"));
            }
        }
        for name in come {
            self.ports.add(&name);
            changes.push(format!("interface {name} added"));
        }
        self.config = wanted.clone();
        self.look(now)?;
        Ok(Reload::Taken(changes))
    }
}

/// Makes an interface forward packets of others, as nodes of a MANET do.
pub fn prepare(settings: &mut Settings, name: &str) {
    settings.set(name, "forwarding", "1");
    // Packets may leave by the interface on which they arrived, for nodes that do not hear the sender.
    settings.set(name, "accept_redirects", "0");
    settings.set("all", "send_redirects", "0");
    settings.set(name, "send_redirects", "0");
    // A neighbour without a route is heard, and ways there and back differ. The greater of both counts.
    let of_all = Settings::read("all", "rp_filter").unwrap_or_default();
    let loose = if of_all == "0" { "0" } else { "2" };
    settings.set(name, "rp_filter", loose);
}

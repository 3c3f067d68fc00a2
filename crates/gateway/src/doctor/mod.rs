//! Examines this host for a configuration: finds missing parts and obstacles, each with the command that mends it.
//!
//! ```text
//!   Config ─▶ examine ─▶ rights, kernel, settings, firewall, addresses, routes, programs ─▶ Finding …
//! ```
//! The examination changes nothing: it tests features of nftables in check mode (`nft -c`).

mod firewall;
mod kinds;
mod neighbours;
mod overrulers;
mod rounds;
mod unjudged;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::ip::{Prefix, protocol};
use caps::{CapSet, Capability};
use host::Kernel;
use host::fault::{BESIDE, FIREWALL, FORWARDING, INTERFACE, LISTEN, MTU, NO_ROUTE, SETTING};
use host::links::{self, LinkState};
use host::run::is_running;
use host::settings::Settings;
use nix::sys::statvfs::{FsFlags, statvfs};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::Value;

use crate::config::traffic::{Call, Listening, Neighbourly, Taking};
use crate::config::{Config, Tunnel, have_everything};
use crate::firewalls::{Firewalls, ask};
use crate::linux::account::Account;
use crate::linux::belongings::closed_folder;
use crate::linux::manet::{Manet, deafness};
use crate::linux::routes::{NextHop, Routes};

pub(crate) use firewall::MANGLE;
pub use host::fault::{Kind, Severity};
pub use kinds::KINDS;
pub(crate) use rounds::Rounds;
pub(crate) use unjudged::list as unjudged;

use kinds::{CLOCK, DNS, MANAGER, NFT, PERHAPS, PORT, RIGHTS, RUNNING, TUN};
use neighbours::{Asked, Lost, wrong_entries};

/// A missing part of the host, or an obstacle to traffic.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// One of [`KINDS`], or a kind of fault of the running gateway.
    pub kind: &'static Kind,
    /// The state found on the host, and the consequence.
    pub what: String,
    /// The command that mends the state, or advice.
    pub remedy: String,
    /// Whether the obstacle affects only packets of other hosts, which may not exist.
    pub(crate) is_of_others: bool,
    /// The name of the peer to which the obstacle blocks the way, if it is only one.
    pub(crate) peer: Option<String>,
}

/// The minimum MTU of IPv6 (RFC 8200, 5), and the first packet size of the tunnel.
const LEAST_MTU: usize = 1_280;
/// The beginning of 2026 in seconds since 1970: an earlier clock was never set.
const RECENT: Duration = Duration::from_secs(1_767_225_600);

/// The parts of a configuration that concern the examination.
struct Needs {
    /// Devices of ours, each with the networks behind it.
    devices: BTreeMap<String, Vec<Prefix>>,
    /// Networks behind devices.
    networks: BTreeSet<Prefix>,
    /// MANET interfaces, between which this node forwards packets.
    radios: BTreeSet<String>,
    /// Whether this host must forward IPv4, and IPv6.
    forwards: [bool; 2],
    /// Sockets to which other hosts send.
    listening: Vec<Listening>,
    /// Peers and servers that services call.
    calls: Vec<Call>,
    /// Packets of other hosts that services intercept.
    takings: Vec<Taking>,
    /// Datagrams between services and their neighbours on a link.
    neighbourly: Vec<Neighbourly>,
    /// The routes of calls, by address and mark.
    ways: BTreeMap<(IpAddr, u32), Way>,
}

/// The route of packets to an address.
struct Way {
    interface: String,
    /// The next hop; `None` for a local address.
    next_hop: Option<IpAddr>,
    /// The source address, unless the service has bound another.
    source: Option<IpAddr>,
}

/// Examines the host for a configuration; the gravest findings come first.
#[must_use]
pub fn examine(config: &Config) -> Vec<Finding> {
    examine_beside(config, is_running())
}

/// Examines the host while a gateway may run (`is_running`), whose ports are no obstacle.
pub(crate) fn examine_beside(config: &Config, mut is_running: bool) -> Vec<Finding> {
    // Sets the marks of our packets; a gateway in this process has done so before.
    let _ = config.numbers.choose();
    let needs = Needs::of(config);
    let mut findings = Findings::default();
    if !is_running
        && Kernel::open()
            .and_then(|mut it| links::of_group(&mut it, links::GROUP))
            .is_ok_and(|ours| !ours.is_empty())
    {
        is_running = true;
        findings.add(
            &RUNNING,
            "a gateway of another container or mount namespace runs in this network namespace".to_owned(),
            "`trackway status` in that container shows it; stop it before you start another one here".to_owned(),
        );
    } else if is_running {
        findings.add(
            &RUNNING,
            "a gateway runs in this network namespace".to_owned(),
            "`trackway status` shows it, `trackway reload` reads its file again".to_owned(),
        );
    }
    findings.rights();
    if !is_running {
        findings.account(config);
    }
    findings.kernel(config, &needs);
    findings.settings();
    findings.forwarding(&needs);
    findings.connections();
    findings.next_hops(&needs);
    firewall::examine(&mut findings, &needs);
    findings.interfaces(config, &needs, &needs.radios);
    findings.addresses(config, &needs, is_running);
    findings.ways(
        &needs,
        &Lost { wrong: wrong_entries(config, &mut Asked::default()), ..Lost::default() },
    );
    overrulers::examine(&mut findings, &needs, is_running);
    findings.versions(config);
    findings.names(&needs);
    findings.clock();
    findings.managers(&needs);
    findings.0.sort_by_key(|it| std::cmp::Reverse(it.kind.severity));
    findings.0
}

/// Faults of the running gateway beyond what an examination has `found`, such as a silent node: `status` is what
/// `trackway status --json` prints.
#[must_use]
pub fn of_running(found: &[Finding], status: &Value) -> Vec<Finding> {
    let finding = |fault: &Value| {
        let code = fault.get("code")?.as_str()?;
        let kind = host::fault::KINDS.iter().copied().find(|kind| kind.code == code)?;
        let said = fault.get("said")?.as_str()?;
        // Faults begin with the same text as findings. The gateway's own findings may be older than ours, so they are
        // left out.
        let is_known = found.iter().any(|it| it.kind == kind && said.starts_with(&it.what));
        let is_finding = fault.get("is_finding").is_some_and(|it| it == true);
        (!is_known && !is_finding).then_some(())?;
        Some(Finding {
            kind,
            what: said.to_owned(),
            remedy:
                "a fault of the gateway that runs here: `trackway status` shows whether it lasts"
                    .to_owned(),
            is_of_others: false,
            peer: None,
        })
    };
    let faults = status.get("faults").and_then(Value::as_array);
    faults.into_iter().flatten().filter_map(finding).collect()
}

/// Examines what can change at any time, for a running gateway.
fn look(config: &Config, firewalls: &Firewalls, lost: &Lost) -> Vec<Finding> {
    let needs = Needs::of(config);
    let mut findings = Findings::default();
    findings.forwarding(&needs);
    findings.connections();
    findings.next_hops(&needs);
    // The services themselves report faults of MANET interfaces.
    findings.interfaces(config, &needs, &BTreeSet::new());
    firewall::examine_traffic(&mut findings, &needs, firewalls);
    findings.ways(&needs, lost);
    overrulers::examine(&mut findings, &needs, true);
    // A doubt is no fault.
    findings.0.retain(|it| it.kind != &PERHAPS);
    findings.0
}

/// For programs: the code, the severity, and both texts.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, what, remedy, .. } = self;
        let mut fields = serializer.serialize_struct("Finding", 4)?;
        fields.serialize_field("code", kind.code)?;
        fields.serialize_field("severity", kind.severity.name())?;
        fields.serialize_field("what", what)?;
        fields.serialize_field("remedy", remedy)?;
        fields.end()
    }
}

impl Needs {
    fn of(config: &Config) -> Self {
        let mut devices = BTreeMap::new();
        if let Some(tunnel) = &config.tunnel {
            let routes = tunnel.peers.iter().flat_map(|peer| &peer.routes);
            devices.insert(tunnel.device.clone(), routes.copied().collect());
        }
        if let Some(client) = &config.ip_client {
            let routes = client.routes.iter().map(|route| route.to);
            devices.insert(client.device.clone(), routes.collect());
        }
        for gre in &config.gre {
            devices.insert(gre.device.clone(), gre.networks.clone());
        }
        let networks: BTreeSet<Prefix> = devices.values().flatten().copied().collect();
        // A routing service enables forwarding on its own interfaces, but not towards the networks that it announces.
        let routed = config.routing.iter().flat_map(|it| &it.interfaces).collect::<Vec<_>>();
        let relays = config.of_hbh().iter().any(|name| !routed.contains(&name));
        let announces = config.routing.iter().any(|it| !it.protocol.attached().is_empty());
        let has = |is_v4| networks.iter().any(|it: &Prefix| it.address().is_ipv4() == is_v4);
        let forwards = [has(true) || relays || announces, has(false)];
        let calls = config.calls();
        let ways = ways(&calls);
        Self {
            devices,
            networks,
            radios: config.radios(),
            forwards,
            listening: config.listening(),
            calls,
            takings: config.takings(),
            neighbourly: config.neighbourly(),
            ways,
        }
    }

    /// Whether an interface is not ours.
    fn is_foreign(&self, name: &str) -> bool {
        !self.devices.contains_key(name) && !name.starts_with("trackway")
    }

    /// Whether a default route of an IP version leads to our devices.
    fn has_default(&self, is_v4: bool) -> bool {
        self.networks.iter().any(|it| it.bits() == 0 && it.address().is_ipv4() == is_v4)
    }
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, kind: &'static Kind, what: String, remedy: String) {
        self.0.push(Finding { kind, what, remedy, is_of_others: false, peer: None });
    }

    /// Adds an obstacle to packets of other hosts.
    fn add_of_others(&mut self, kind: &'static Kind, what: String, remedy: String) {
        self.0.push(Finding { kind, what, remedy, is_of_others: true, peer: None });
    }

    /// Adds an obstacle on the way to a peer.
    fn add_of_peer(&mut self, kind: &'static Kind, peer: &str, what: String, remedy: String) {
        let peer = Some(peer.to_owned());
        self.0.push(Finding { kind, what, remedy, is_of_others: false, peer });
    }

    fn rights(&mut self) {
        let missing: Vec<_> = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW]
            .into_iter()
            .filter(|it| !caps::has_cap(None, CapSet::Effective, *it).unwrap_or(false))
            .map(|it| it.to_string())
            .collect();
        if !missing.is_empty() {
            self.add(
                &RIGHTS,
                format!(
                    "{} are missing: `trackway run` may not change the host",
                    missing.join(", ")
                ),
                "run it as root".to_owned(),
            );
        }
    }

    /// Checks whether the unprivileged user of the gateway can create the gateway's socket.
    fn account(&mut self, config: &Config) {
        if config.sar.is_none() {
            return;
        }
        let chosen = Account::choose(config.process.user.as_deref(), host::run::namespace());
        if let Ok(Some(account)) = chosen
            && let Some(folder) = closed_folder(config, &account)
        {
            // Other programs use /run or /var/lib, and perhaps a folder that we cannot read: do not change its owner.
            let own = config.sar.as_ref().and_then(|sar| sar.socket.path.file_name());
            let is_shared = fs::read_dir(folder).map_or(true, |mut files| {
                files.any(|file| file.is_ok_and(|it| Some(&*it.file_name()) != own))
            });
            let folder = folder.display();
            let remedy = if is_shared {
                "set sar.socket to a file in a folder that does not exist: the gateway makes the folder"
                    .to_owned()
            } else {
                format!("chown {} {folder}", account.uid)
            };
            self.add(
                &RIGHTS,
                format!(
                    "the gateway will run as {account}, which may not create sar.socket in {folder}"
                ),
                remedy,
            );
        }
    }

    /// Checks for features of the kernel, and for `nft`.
    fn kernel(&mut self, config: &Config, needs: &Needs) {
        let has_mac = config.hbh.is_some();
        if (has_mac || !needs.devices.is_empty()) && !Path::new("/dev/net/tun").exists() {
            self.add(
                &TUN,
                "there is no /dev/net/tun: no device can be made".to_owned(),
                "modprobe tun".to_owned(),
            );
        }
        let has_peers = config.hf_pep.as_ref().is_some_and(|pep| !pep.peers.is_empty());
        for (is_needed, script, what, modules) in [
            (
                has_mac,
                "add chain netdev trackway_try e { type filter hook egress device \"lo\" priority 0; }",
                "HBH cannot take packets at the egress of an interface (Linux 5.16)",
                "nf_tables",
            ),
            (
                has_peers,
                "add chain inet trackway_try p { type filter hook prerouting priority 0; }\n\
                 add rule inet trackway_try p meta l4proto tcp socket transparent 1 accept\n\
                 add rule inet trackway_try p meta l4proto tcp tproxy ip to 127.0.0.1:1",
                "HF-PEP cannot divert connections",
                "nft_tproxy nft_socket",
            ),
            (
                !needs.devices.is_empty(),
                "add chain inet trackway_try p { type filter hook prerouting priority 0; }\n\
                 add rule inet trackway_try p fib saddr oif exists accept",
                "packets in clear with the source addresses of peers cannot be dropped",
                "nft_fib_inet",
            ),
        ] {
            let family = if script.contains("netdev") { "netdev" } else { "inet" };
            let orders = format!("add table {family} trackway_try\n{script}\n");
            if is_needed && let Err(why) = try_orders(&orders) {
                self.add(
                    &NFT,
                    format!("{what}: {why}"),
                    format!("apt install nftables; modprobe -a {modules}"),
                );
            }
        }
    }

    fn settings(&mut self) {
        // A sandbox may mount this part of /proc/sys separately.
        let is_fixed =
            statvfs("/proc/sys/net").is_ok_and(|it| it.flags().contains(FsFlags::ST_RDONLY));
        if is_fixed {
            self.add(
                &SETTING,
                "/proc/sys cannot be written: reverse path filters stay as they are, and devices may not carry IPv6"
                    .to_owned(),
                "make /proc/sys writable in the container, or mend the faults of `trackway status` on the host"
                    .to_owned(),
            );
        }
    }

    fn forwarding(&mut self, needs: &Needs) {
        let [v4, v6] = needs.forwards;
        if v4 && forwarding_off(true).is_none() {
            // IPv6 has one setting for all interfaces.
            for name in &Settings::interfaces() {
                if Settings::read(name, "forwarding").is_some_and(|it| it == "0") {
                    self.add_of_others(
                        &FORWARDING,
                        format!("net.ipv4.conf.{name}.forwarding is 0: packets of other hosts from {name} are dropped"),
                        format!("sysctl -w net.ipv4.conf.{name}.forwarding=1"),
                    );
                }
            }
        }
        for (is_v4, forwards) in [(true, v4), (false, v6)] {
            if forwards && let Some(key) = forwarding_off(is_v4) {
                self.add_of_others(
                    &FORWARDING,
                    format!("{key} is 0: only this host reaches the far networks, packets of hosts behind it are dropped"),
                    format!("sysctl -w {key}=1 (in a file below /etc/sysctl.d to keep it)"),
                );
            }
        }
    }

    /// Checks for a full connection tracking table, which the kernel does not report.
    fn connections(&mut self) {
        if let Some(most) = full_connections() {
            self.add(
                &FIREWALL,
                format!("the kernel's table of {most} connections is full: packets of new connections are dropped"),
                format!("sysctl -w net.netfilter.nf_conntrack_max={}", 4 * most),
            );
        }
    }

    /// Checks whether the kernel reports the interfaces of all routes.
    fn next_hops(&mut self, needs: &Needs) {
        let key = "net.ipv4.nexthop_compat_mode";
        if !needs.devices.is_empty() && is_zero(key) {
            self.add(
                &SETTING,
                format!(
                    "{key} is 0: Trackway does not see changes of routes that use `ip nexthop`"
                ),
                format!("sysctl -w {key}=1"),
            );
        }
    }

    /// Checks our devices and the interfaces of services. For MANET interfaces outside of `radios`, finds only what
    /// their services do not report.
    fn interfaces(&mut self, config: &Config, needs: &Needs, radios: &BTreeSet<String>) {
        let routed: BTreeSet<_> = config.routing.iter().flat_map(|it| &it.interfaces).collect();
        let taken = needs.takings.iter().flat_map(|it| &it.interfaces);
        let taken = taken.filter(|name| *name != "lo");
        let names: BTreeSet<_> = needs.radios.iter().chain(taken).collect();
        let Ok(mut kernel) = Kernel::open() else { return };
        let takes_own = needs.takings.iter().any(|it| it.takes_own());
        let is_down = |it: LinkState| !it.is_running;
        if takes_own && LinkState::read(&mut kernel, "lo").is_ok_and(|it| it.is_some_and(is_down)) {
            self.add(
                &INTERFACE,
                "lo is down: services cannot take the packets that this host itself sends"
                    .to_owned(),
                "ip link set lo up".to_owned(),
            );
        }
        for name in needs.devices.keys() {
            if LinkState::read(&mut kernel, name).is_ok_and(|it| it.is_some_and(is_down)) {
                self.add(
                    &INTERFACE,
                    format!("{name} has no carrier, or is down: it carries no packets"),
                    format!("ip link set {name} up carrier on"),
                );
            }
        }
        for name in names {
            let (what, remedy) = match LinkState::read(&mut kernel, name) {
                Err(_) => continue,
                Ok(Some(state)) if state.is_port => (
                    format!(
                        "{name} is a port of a bridge, bond or team, which receives all packets from there"
                    ),
                    format!("ip link set {name} nomaster"),
                ),
                _ if needs.radios.contains(name) && !radios.contains(name) => continue,
                Ok(None) => (
                    format!("there is no interface {name}: the service waits for it"),
                    "`ip link` lists the interfaces that exist".to_owned(),
                ),
                Ok(Some(state)) if !state.is_running => {
                    (format!("{name} is down, or has no carrier"), format!("ip link set {name} up"))
                }
                Ok(Some(state)) if state.mac.is_none() && config.of_hbh().contains(name) => (
                    format!("{name} is not an Ethernet-like interface: HBH cannot use it"),
                    "take another interface for hbh.interfaces".to_owned(),
                ),
                Ok(Some(state))
                    if routed.contains(name) && !state.addresses.iter().any(IpAddr::is_ipv4) =>
                {
                    (
                        format!("{name} has no IPv4 address: routing waits for one"),
                        format!("ip address add ADDRESS/32 dev {name}"),
                    )
                }
                Ok(Some(state)) => {
                    let v4 = state.addresses.iter().find_map(|it| match it {
                        IpAddr::V4(it) if routed.contains(name) => Some(*it),
                        _ => None,
                    });
                    if let Some((what, remedy)) = v4.and_then(|it| deafness(name, it)) {
                        self.add(&SETTING, what, remedy);
                    }
                    continue;
                }
            };
            self.add(&INTERFACE, what, remedy);
        }
    }

    fn addresses(&mut self, config: &Config, needs: &Needs, is_running: bool) {
        let own = Kernel::open().and_then(|mut it| links::own_addresses(&mut it));
        let own = own.unwrap_or_default();
        for listening in &config.used_addresses() {
            let Listening { key, protocol, at, .. } = listening;
            let ip = at.ip().to_canonical();
            if !ip.is_unspecified() && !ip.is_loopback() && !own.contains(&ip) {
                self.add(&LISTEN, not_reached(listening), address_order(ip));
            } else if !is_running && is_taken(bind(*protocol, *at)) {
                let (transport, option) =
                    if *protocol == protocol::TCP { ("TCP", 't') } else { ("UDP", 'u') };
                let port = at.port();
                self.add(
                    &PORT,
                    format!("another program has {transport} port {port} at {ip}"),
                    format!("`ss -{option}lpn 'sport = {port}'` names it; or take another port for {key}"),
                );
            }
        }
        for Neighbourly { service, interface, port } in &needs.neighbourly {
            if !is_running && is_taken(Manet::open(interface, *port).map(|_| ())) {
                self.add(
                    &PORT,
                    format!("another program has UDP port {port} on {interface}, which {service} needs"),
                    format!("`ss -ulpn 'sport = {port}'` names it: end it, such as another routing daemon"),
                );
            }
        }
    }

    /// Checks the routes of calls, their interfaces and their next hops.
    fn ways(&mut self, needs: &Needs, lost: &Lost) {
        let Ok(mut routes) = Routes::open() else { return };
        let Ok(mut kernel) = Kernel::open() else { return };
        let (mut seen, mut mute) = (BTreeSet::new(), BTreeSet::new());
        for ((interface, address), (set, answers)) in &lost.wrong {
            let name = links::name(*interface);
            self.add(
                &NO_ROUTE,
                format!("the hardware address of {address} on {name} is set by hand to {set}, but {answers} answers for it"),
                format!("ip neigh delete {address} dev {name}"),
            );
        }
        for Call { whom, peer, to, mark, .. } in &needs.calls {
            let Some(address) = *to else { continue };
            let marked = if *mark == 0 { String::new() } else { format!(" mark {mark:#x}") };
            let mut add = |kind, what, remedy| {
                let peer = peer.clone();
                self.0.push(Finding { kind, what, remedy, is_of_others: false, peer });
            };
            match routes.marked(address, *mark) {
                NextHop::Neighbour { interface, .. }
                    if peer.is_some() && needs.devices.contains_key(&links::name(interface)) =>
                {
                    let device = links::name(interface);
                    add(
                        &NO_ROUTE,
                        format!("the way to {whom} at {address} leads into {device} itself"),
                        format!(
                            "`ip route get {address}{marked}` shows the route, or a rule leads there: remove it"
                        ),
                    );
                }
                NextHop::Nowhere => add(
                    &NO_ROUTE,
                    format!("no route leads to {whom} at {address}"),
                    format!(
                        "`ip route get {address}{marked}` says why; a default route is missing, or the interface is down"
                    ),
                ),
                NextHop::Neighbour { interface, address: next_hop } => {
                    let name = links::name(interface);
                    let state = LinkState::read(&mut kernel, &name).ok().flatten();
                    let mtu = state.as_ref().map_or(usize::MAX, |state| state.mtu);
                    if state.as_ref().is_some_and(|it| it.is_mute)
                        && !links::is_modem(&name)
                        && !links::is_permanent(&mut kernel, interface, next_hop)
                        && mute.insert(interface)
                    {
                        add(
                            &INTERFACE,
                            format!(
                                "{name}, which leads to {whom} at {address}, finds no neighbours: ARP is switched off"
                            ),
                            format!("ip link set {name} arp on"),
                        );
                    }
                    let asks = state.as_ref().is_some_and(|it| !it.is_mute);
                    if asks
                        && !lost.wrong.contains_key(&(interface, next_hop))
                        && links::is_permanent(&mut kernel, interface, next_hop)
                    {
                        add(
                            &PERHAPS,
                            format!(
                                "the hardware address of {next_hop} on {name}, which leads to {whom} at {address}, is set by \
                                 hand: if it is wrong, packets are lost"
                            ),
                            format!(
                                "`ip neigh show {next_hop} dev {name}` shows it; after `ip neigh delete {next_hop} dev {name}` \
                                 the kernel finds the right one"
                            ),
                        );
                    }
                    if lost.silent.contains(&(interface, next_hop)) {
                        add(
                            &NO_ROUTE,
                            format!(
                                "the router {next_hop} on {name}, which leads to {whom} at {address}, does not answer"
                            ),
                            format!(
                                "start it, or take another router; `ip neigh show {next_hop} dev {name}` shows whether it answers"
                            ),
                        );
                    }
                    if !seen.insert(interface) {
                        continue;
                    }
                    if state.as_ref().is_some_and(|it| it.is_port) && !needs.radios.contains(&name)
                    {
                        add(
                            &INTERFACE,
                            format!(
                                "{name}, which leads to {whom} at {address}, is a port of a bridge, bond or team, which \
                                 receives all packets from there"
                            ),
                            format!("ip link set {name} nomaster"),
                        );
                    }
                    // A route stays when only the carrier is lost. Services report their own interfaces.
                    if state.is_some_and(|it| !it.is_running)
                        && !needs.devices.contains_key(&name)
                        && !needs.radios.contains(&name)
                    {
                        add(
                            &INTERFACE,
                            format!("{name}, which leads to {whom} at {address}, has no carrier"),
                            format!(
                                "check the cable or the radio behind it; `ip link show {name}` shows the state"
                            ),
                        );
                    }
                    if mtu < LEAST_MTU {
                        self.add(
                            &MTU,
                            format!("{name}, which leads to {whom}, has an MTU of {mtu}: IPv6 needs at least 1280"),
                            format!("ip link set {name} mtu 1500, if the link behind it carries such packets"),
                        );
                    }
                }
                NextHop::Here => {}
            }
        }
    }

    /// Checks for an IP version that leaves in clear while the tunnel carries all of the other.
    fn versions(&mut self, config: &Config) {
        let Some(in_clear) = config.tunnel.as_ref().and_then(Tunnel::in_clear) else { return };
        let Ok(mut routes) = Routes::open() else { return };
        if routes.towards(in_clear.towards()) != NextHop::Nowhere {
            let remedy = format!(
                "{}; or remove the host's default route of that version",
                in_clear.remedy()
            );
            self.add(&BESIDE, in_clear.what(), remedy);
        }
    }

    /// Checks for name servers that are asked in clear while a peer carries everything else.
    fn names(&mut self, needs: &Needs) {
        if !have_everything(&needs.networks) {
            return;
        }
        let Ok(mut routes) = Routes::open() else { return };
        for server in resolvers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default()) {
            let NextHop::Neighbour { interface, address } = routes.towards(server) else {
                continue;
            };
            let name = links::name(interface);
            // The route of the server's own network is longer than the peer's default route.
            if address == server && !needs.devices.contains_key(&name) {
                self.add(
                    &DNS,
                    format!("DNS queries go to {server} on {name} in clear, past the peer for everything"),
                    "set a name server behind the peer in /etc/resolv.conf".to_owned(),
                );
            }
        }
    }

    fn clock(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if now < RECENT {
            self.add(
                &CLOCK,
                "the clock was never set: peers may refuse handshakes as replays, and certificates are not valid yet"
                    .to_owned(),
                "timedatectl set-ntp true, or date --set".to_owned(),
            );
        }
    }

    fn managers(&mut self, needs: &Needs) {
        if needs.devices.is_empty() {
            return;
        }
        let devices = needs.devices.keys().cloned().collect::<Vec<_>>().join(",");
        let is_told = |folder: &str| {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
            texts.into_iter().any(|text| text.contains("trackway"))
        };
        if Path::new("/run/NetworkManager").is_dir() && !is_told("/etc/NetworkManager/conf.d") {
            self.add(
                &MANAGER,
                format!(
                    "NetworkManager runs, and may change {devices}; Trackway undoes such changes"
                ),
                "printf '[keyfile]\\nunmanaged-devices=interface-name:trackway*\\n' > \
                 /etc/NetworkManager/conf.d/trackway.conf; nmcli general reload"
                    .to_owned(),
            );
        }
        let has_any = fs::read_dir("/etc/systemd/network").is_ok_and(|mut it| it.next().is_some());
        if Path::new("/run/systemd/netif/links").is_dir()
            && has_any
            && !is_told("/etc/systemd/network")
        {
            self.add(
                &MANAGER,
                format!("systemd-networkd runs, and may change {devices} if one of its files matches; Trackway undoes such changes"),
                "printf '[Match]\\nName=trackway*\\n[Link]\\nUnmanaged=yes\\n' > \
                 /etc/systemd/network/00-trackway.network; networkctl reload"
                    .to_owned(),
            );
        }
    }
}

/// The routes of calls; calls without a route are left out.
fn ways(calls: &[Call]) -> BTreeMap<(IpAddr, u32), Way> {
    let Ok(mut routes) = Routes::open() else { return BTreeMap::new() };
    let mut way = |call: &Call| {
        let to = call.to?;
        let (interface, next_hop) = match routes.marked(to, call.mark) {
            NextHop::Here => ("lo".to_owned(), None),
            NextHop::Neighbour { interface, address } => (links::name(interface), Some(address)),
            NextHop::Nowhere => return None,
        };
        let source = routes.source(to, call.mark);
        Some(((to, call.mark), Way { interface, next_hop, source }))
    };
    calls.iter().filter_map(&mut way).collect()
}

/// Tries to bind a socket, and closes it.
fn bind(protocol: u8, at: std::net::SocketAddr) -> io::Result<()> {
    match protocol {
        protocol::TCP => TcpListener::bind(at).map(|_| ()),
        _ => UdpSocket::bind(at).map(|_| ()),
    }
}

fn is_taken(bound: io::Result<()>) -> bool {
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

/// The text of the finding that a service listens at a foreign address.
pub(crate) fn not_reached(Listening { service, key, at, .. }: &Listening) -> String {
    let ip = at.ip().to_canonical();
    format!("{key} names {ip}, no address of this host: {service} is not reached there")
}

/// The command that adds an address to this host. If no interface is on its network, the operator must choose one.
pub(crate) fn address_order(ip: IpAddr) -> String {
    let towards = Routes::open().map(|mut routes| routes.towards(ip));
    let interface = match towards {
        // The address itself is the next hop: it is on the link's network.
        Ok(NextHop::Neighbour { interface, address }) if address == ip => links::name(interface),
        _ => "INTERFACE".to_owned(),
    };
    format!("ip address add {} dev {interface}", Prefix::host(ip))
}

/// The setting that disables forwarding for a version of IP, if forwarding is off.
pub(crate) fn forwarding_off(is_v4: bool) -> Option<&'static str> {
    let key = if is_v4 { "net.ipv4.ip_forward" } else { "net.ipv6.conf.all.forwarding" };
    is_zero(key).then_some(key)
}

fn is_zero(key: &str) -> bool {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    fs::read_to_string(path).is_ok_and(|value| value.trim() == "0")
}

/// The size of the connection tracking table, if the table is full.
fn full_connections() -> Option<u64> {
    let read = |what| {
        let path = format!("/proc/sys/net/netfilter/nf_conntrack_{what}");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    read("max").filter(|most| read("count").is_some_and(|count| is_full(count, *most)))
}

/// Whether the table is full; the kernel evicts old connections for a few new ones.
fn is_full(count: u64, most: u64) -> bool {
    most > 0 && count + most / 64 >= most
}

/// The name servers of a `resolv.conf`.
fn resolvers(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    servers.filter_map(|rest| rest.trim().parse().ok()).collect()
}

/// Whether an interface has a strict reverse path filter.
fn is_strict() -> bool {
    let strictest = |name: &str| Settings::read(name, "rp_filter").unwrap_or_default() == "1";
    strictest("all") || Settings::interfaces().iter().any(|name| strictest(name))
}

/// Lets `nft` check commands without carrying them out.
///
/// # Errors
/// The error message of `nft`.
fn try_orders(orders: &str) -> Result<(), String> {
    let said = ask("nft", &["-c", "-f", "-"], orders)?;
    said.success().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_names_are_read() {
        let text = "# made by hand\nsearch example.org\nnameserver 192.0.2.53\n nameserver fd00::53\nnameserver x\n";

        let expected: Vec<IpAddr> = ["192.0.2.53", "fd00::53"].map(|it| it.parse().unwrap()).into();
        assert_eq!(resolvers(text), expected);
    }

    #[test]
    fn a_table_of_connections_is_full_a_little_before_its_end() {
        let full = [(0, 0), (1, 1), (981, 1_000), (984, 1_000), (985, 1_000), (1_001, 1_000)];

        assert_eq!(
            full.map(|(count, most)| is_full(count, most)),
            [false, true, false, false, true, true]
        );
    }

    #[test]
    fn a_fault_is_told_unless_a_finding_says_the_same() {
        let mut findings = Findings::default();
        findings.add(&INTERFACE, "there is no interface eth1".to_owned(), "make it".to_owned());
        let fault = |code, said| serde_json::json!({ "code": code, "said": said });
        let status = serde_json::json!({ "faults": [
            fault("interface-missing", "there is no interface eth1: make it"),
            fault("interface-missing", "HBH waits for wlan0"),
            fault("no-answer", "there is no interface eth1"),
            fault("of-another-version", "it"),
            serde_json::json!({ "code": "mtu", "said": "mended since", "is_finding": true }),
        ]});

        let told = of_running(&findings.0, &status);

        let told: Vec<_> = told.iter().map(|it| (it.kind.code, &it.what[..])).collect();
        let expected = [
            ("interface-missing", "HBH waits for wlan0"),
            ("no-answer", "there is no interface eth1"),
        ];
        assert_eq!(told, expected);
        assert_eq!(of_running(&[], &Value::Null), []);
    }

    #[test]
    fn each_kind_is_declared_once() {
        let codes: BTreeSet<_> = KINDS.iter().map(|kind| kind.code).collect();

        assert_eq!(codes.len(), KINDS.len());
        // A finding with the code of a fault is that fault's kind.
        for kind in KINDS {
            assert!(kind.meaning.ends_with('.'), "{}", kind.code);
            let mut faults = host::fault::KINDS.iter().filter(|fault| fault.code == kind.code);
            assert!(faults.all(|fault| std::ptr::eq(*fault, kind)), "{}", kind.code);
        }
    }
}

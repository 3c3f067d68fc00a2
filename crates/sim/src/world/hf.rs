//! HF frequencies in a network: hosts exchange packets as STANAG 5066 datagrams.
//!
//! ```text
//!  Node ─▶ interface hf0 ─▶ service ⇄ medium ⇄ service ─▶ interface hf0 ─▶ Node
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ::hf::hfpep::{self, HfPep};
use ::hf::ipclient::{self, IpClient};
use ::hf::s5066::node::{self, Record};
use ::hf::s5066::{self, Address};
use ::hf::slep;
use base::ip::Prefix;

use super::World;
use crate::capture::LinkType;
use crate::hf::{self, Air, StationId};
use crate::ids::{HfId, NodeId, PortId};
use crate::node::InterfaceConfig;
use crate::node::service::hf::Station;
use crate::node::service::hf::pep::{self, Pep};

/// A station on a frequency, and the host that sends IP over it.
#[derive(Clone, Debug)]
pub struct HfStation {
    /// The host, which gets an interface.
    pub host: NodeId,
    /// The STANAG 5066 node.
    pub node: node::Config,
    /// The IP client; routes to the other stations are added.
    pub client: ipclient::Config,
    /// The HF-PEP for TCP; without an HF-PEP the IP client carries TCP like all other packets.
    pub pep: Option<PepConfig>,
    /// Networks that others reach through it, in addition to the host's addresses on this frequency.
    pub behind: Vec<Prefix>,
    /// The interface.
    pub interface: InterfaceConfig,
}

impl HfStation {
    /// A station with nothing behind it and an MTU of 1,500.
    #[must_use]
    pub fn new(host: NodeId, node: node::Config) -> Self {
        Self {
            host,
            node,
            client: ipclient::Config::new(Vec::new()),
            pep: None,
            behind: Vec::new(),
            interface: InterfaceConfig::default(),
        }
    }
}

/// An HF-PEP at a station.
#[derive(Clone, Debug, Default)]
pub struct PepConfig {
    /// The core.
    pub core: hfpep::Config,
    /// How connections that hosts at this station open are carried.
    pub options: slep::Options,
    /// Its TCP towards hosts.
    pub tcp: tcp::Config,
}

/// Name prefix of interfaces to HF frequencies.
const KIND: &str = "hf";

/// A transmission or reception of a station.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HfRecord {
    /// The station.
    pub station: StationId,
    /// The transmission or reception.
    pub record: Record,
}

/// The addresses and networks that others reach through a station.
struct Reached {
    at: Address,
    own: [IpAddr; 2],
    behind: Vec<Prefix>,
}

impl World {
    /// Adds a frequency with these stations.
    ///
    /// Station `s` (from 0) of frequency `n` gets the addresses `10.255.n.(s + 1)` and
    /// `fd00:ffff:n::(s + 1)`; all stations get routes to each other, and to the networks behind each.
    pub fn add_hf(&mut self, config: hf::Config, stations: Vec<HfStation>) -> HfId {
        let index = self.frequencies.len();
        let names: Vec<_> =
            stations.iter().map(|station| self.station_name(station.host, KIND)).collect();
        let radio = hf::Medium::named(config, names.iter().cloned(), self.seed);
        let medium = self.add_medium(Air::new(radio));
        let reached: Vec<_> = stations
            .iter()
            .enumerate()
            .map(|(number, station)| Reached {
                at: station.node.address,
                own: addresses(index, number),
                behind: station.behind.clone(),
            })
            .collect();

        let hosts: Vec<_> = stations.iter().map(|station| station.host).collect();
        let attach = |(number, station): (usize, &HfStation)| {
            let port = self.attach(station.host, medium, KIND, station.interface);
            for address in addresses(index, number) {
                self.add_address(port, address);
            }
            port
        };
        let ports: Vec<_> = stations.iter().enumerate().map(attach).collect();
        for ((number, station), port) in stations.into_iter().enumerate().zip(&ports) {
            let HfStation { node, mut client, pep, .. } = station;
            for (_, there) in reached.iter().enumerate().filter(|(other, _)| *other != number) {
                self.route_to_station(*port, there, &mut client);
            }
            client.addresses.extend(addresses(index, number));
            let name = &names[number];
            let rng = self.stream(&format!("hf node {name}"));
            let now = self.engine.now;
            let node = s5066::Node::new(now, node, rng);
            let pep = pep.map(|PepConfig { core, options, tcp }| {
                let [core_rng, tcp_rng] =
                    ["hfpep", "hf tcp"].map(|what| self.stream(&format!("{what} {name}")));
                let core = HfPep::new(now, core, core_rng);
                Pep::new(core, client.routes.clone(), options, tcp, tcp_rng)
            });
            let client = IpClient::new(now, client);
            let interface = self.engine.ports[port.index()].interface;
            let service = Station::new(StationId(number), *port, interface, node, client, pep);
            self.start(hosts[number], service);
        }
        self.frequencies.push((medium, ports));
        HfId(super::small(index))
    }

    /// Changes the channel from one station to another.
    pub fn set_hf_channel(
        &mut self,
        hf: HfId,
        from: StationId,
        to: StationId,
        channel: hf::Channel,
    ) {
        let port = self.hf_port(hf, from);
        self.engine.at_port(port, |air: &mut Air, _| {
            air.radio_mut().set_channel(from, to, channel);
        });
    }

    /// Starts the node of a station anew: it has forgotten all links and U_PDUs, and its clients connect
    /// again. A transmission under way ends with the octets that the modem has.
    pub fn restart_hf_node(&mut self, hf: HfId, station: StationId, config: node::Config) {
        let now = self.engine.now;
        let port = self.hf_port(hf, station);
        self.engine.at_port(port, |air: &mut Air, _| air.radio_mut().end(station));
        let name = self.hf_medium(hf).name(station);
        let rng = self.stream(&format!("hf node {name} restart {}", now.as_nanos()));
        let node = s5066::Node::new(now, config, rng);
        self.with_station(hf, station, |it| it.restart(now, node));
    }

    /// Records from now on what stations transmit and receive, for [`World::poll_hf_record`].
    pub fn record_hf(&mut self, hf: HfId) {
        for station in self.hf_stations(hf) {
            self.with_station(hf, station, Station::record);
        }
    }

    /// The next record, those of the first station first. At most about a million are kept for each
    /// station.
    pub fn poll_hf_record(&mut self, hf: HfId) -> Option<HfRecord> {
        self.hf_stations(hf).into_iter().find_map(|station| {
            let record = self.with_station(hf, station, Station::poll_record)??;
            Some(HfRecord { station, record })
        })
    }

    /// Captures the D_PDUs that stations send and hear into `folder`/`hf-n.pcapng`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn capture_hf(&mut self, hf: HfId, folder: &Path) -> io::Result<()> {
        let stations = self.hf_stations(hf);
        let host = |station: &StationId| self.name(self.node_of(self.hf_port(hf, *station)));
        let names: Vec<_> = stations.iter().map(|station| host(station).to_owned()).collect();
        let file = format!("hf-{}.pcapng", hf.index());
        let capture = self.add_capture(folder, &file, &names, LinkType::DPdu)?;
        for (station, number) in stations.into_iter().zip(0..) {
            self.with_station(hf, station, |it| it.capture(capture, number));
        }
        Ok(())
    }

    /// The radio channel of a frequency.
    ///
    /// # Panics
    /// If the frequency belongs to another world.
    #[must_use]
    pub fn hf_medium(&self, hf: HfId) -> &hf::Medium {
        let (medium, _) = &self.frequencies[hf.index()];
        self.medium::<Air>(*medium).expect("a frequency's medium is air").radio()
    }

    /// The STANAG 5066 node of a station.
    #[must_use]
    pub fn hf_node(&self, hf: HfId, station: StationId) -> &s5066::Node {
        self.hf_station(hf, station).node()
    }

    /// The IP client of a station.
    #[must_use]
    pub fn hf_client(&self, hf: HfId, station: StationId) -> &IpClient {
        self.hf_station(hf, station).client()
    }

    /// The HF-PEP of a station, if present.
    #[must_use]
    pub fn hf_pep(&self, hf: HfId, station: StationId) -> Option<&HfPep> {
        self.hf_station(hf, station).pep().map(Pep::core)
    }

    /// TCP statistics of a station's HF-PEP, if present.
    #[must_use]
    pub fn hf_pep_stats(&self, hf: HfId, station: StationId) -> Option<pep::Stats> {
        self.hf_station(hf, station).pep().map(Pep::stats)
    }

    /// The port of a station's host on the frequency.
    #[must_use]
    pub fn hf_port(&self, hf: HfId, station: StationId) -> PortId {
        let (_, ports) = &self.frequencies[hf.index()];
        ports[station.0]
    }

    fn hf_stations(&self, hf: HfId) -> Vec<StationId> {
        let (_, ports) = &self.frequencies[hf.index()];
        (0..ports.len()).map(StationId).collect()
    }

    fn hf_station(&self, hf: HfId, station: StationId) -> &Station {
        let port = self.hf_port(hf, station);
        let mut services = self.services::<Station>(self.node_of(port));
        services.find(|it| it.port() == port).expect("every station has its service")
    }

    fn with_station<T>(
        &mut self,
        hf: HfId,
        station: StationId,
        change: impl FnOnce(&mut Station) -> T,
    ) -> Option<T> {
        let port = self.hf_port(hf, station);
        let node = self.node_of(port);
        let is_it = |it: &Station| it.port() == port;
        self.nodes[node.index()].with_service(&mut self.engine, is_it, change)
    }

    /// Adds the routes to a station and to the networks behind it, in the host and in its IP client.
    fn route_to_station(&mut self, port: PortId, to: &Reached, client: &mut ipclient::Config) {
        let own = to.own.map(|address| (Prefix::host(address), None));
        let behind = to.behind.iter().map(|prefix| {
            let is_v6 = prefix.address().is_ipv6();
            (*prefix, to.own.into_iter().find(|address| address.is_ipv6() == is_v6))
        });
        for (prefix, via) in own.into_iter().chain(behind) {
            self.add_route(port, prefix, via, 0);
            client.routes.push(ipclient::Route { prefix, to: to.at });
        }
    }
}

/// The addresses of a station.
fn addresses(net: usize, station: usize) -> [IpAddr; 2] {
    let net = u8::try_from(net).expect("a world has fewer than 2^8 frequencies");
    let station = u8::try_from(station + 1).expect("a frequency has fewer than 2^8 stations");
    [
        Ipv4Addr::new(10, 255, net, station).into(),
        Ipv6Addr::new(0xfd00, 0xffff, net.into(), 0, 0, 0, 0, station.into()).into(),
    ]
}

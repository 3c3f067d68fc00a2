//! Combat nets in a network: several nodes share one slow channel.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::{RadioState, World};
use crate::capture::LinkType;
use crate::cnr::{self, Hearing, Net};
use crate::ids::{CnrId, NodeId, PortId};
use crate::mobility::Motion;
use crate::node::InterfaceConfig;

impl World {
    /// Adds a combat net without stations.
    ///
    /// # Panics
    /// If there are sixteen nets already.
    pub fn add_cnr(&mut self, config: cnr::Config, hearing: Hearing) -> CnrId {
        let index = self.nets.len();
        assert!(index < MOST_NETS, "a world has at most {MOST_NETS} combat nets");
        let medium = self.add_medium(Net::new(cnr::Medium::new(config, hearing, self.seed)));
        self.nets.push((medium, Vec::new()));
        CnrId(super::small(index))
    }

    /// Gives a node a moving station on a net; the motion matters if positions decide about hearing.
    ///
    /// Station `s` (from 0) of net `n` gets the address `172.(16 + n).0.(s + 1)`, and
    /// `fd00:fffd:n::(s + 1)`. For IP the net is one link: all stations that it joins, over relays or
    /// not, are neighbours.
    ///
    /// # Panics
    /// If the net has 92 stations already.
    pub fn add_cnr_station(&mut self, cnr: CnrId, node: NodeId, motion: Motion) -> PortId {
        let (medium, ports) = &self.nets[cnr.index()];
        let (medium, station) = (*medium, ports.len());
        let name = self.station_name(node, KIND);
        self.engine.on_medium(medium, |net: &mut Net, delivery| {
            net.channel_mut().add_station(&name, motion);
            net.start(delivery);
        });
        let mtu = self.cnr_medium(cnr).config().mtu;
        let interface = InterfaceConfig { mtu, ..InterfaceConfig::default() };
        let port = self.attach(node, medium, KIND, interface);
        for address in addresses(cnr, station) {
            self.add_address(port, address);
        }
        self.nets[cnr.index()].1.push(port);
        port
    }

    /// The channel and its stations.
    ///
    /// # Panics
    /// If the net belongs to another world.
    #[must_use]
    pub fn cnr_medium(&self, cnr: CnrId) -> &cnr::Medium {
        let (medium, _) = self.nets[cnr.index()];
        self.medium::<Net>(medium).expect("the medium of a net is one").channel()
    }

    /// The ports of a net's stations, in their order.
    #[must_use]
    pub fn cnr_ports(&self, cnr: CnrId) -> &[PortId] {
        &self.nets[cnr.index()].1
    }

    /// The node's station on its first net in which positions decide about hearing.
    pub(crate) fn cnr_state(&self, node: NodeId) -> Option<RadioState<'_>> {
        let mut interfaces = self.nodes[node.index()].interfaces.iter();
        interfaces.find_map(|interface| {
            let port = interface.port;
            let net = self.medium::<Net>(self.engine.ports[port.index()].medium)?;
            let station = net.station(port).filter(|_| net.channel().has_places())?;
            let (motion, range) = (net.channel().motion(station), net.channel().config().range);
            Some(RadioState { motion, range, is_on: true })
        })
    }

    /// Captures every packet on a net into `folder`/`net-n.pcapng`, at the end of its transmission, on the
    /// interface of the station that sent it, relays and repeats included; whatever became of it.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn capture_cnr(&mut self, cnr: CnrId, folder: &Path) -> io::Result<()> {
        let (medium, ref ports) = self.nets[cnr.index()];
        let names: Vec<_> =
            ports.iter().map(|port| self.name(self.node_of(*port)).to_owned()).collect();
        let file = format!("net-{}.pcapng", cnr.index());
        let capture = self.add_capture(folder, &file, &names, LinkType::Ip)?;
        self.engine.on_medium(medium, |net: &mut Net, _| net.capture(capture));
        Ok(())
    }
}

/// Name prefix of combat net interfaces.
const KIND: &str = "cnr";

/// Combat nets in a world: their addresses are the networks of 172.16.0.0/12.
const MOST_NETS: usize = 16;

/// The addresses of a station.
fn addresses(cnr: CnrId, station: usize) -> [IpAddr; 2] {
    let net = u8::try_from(cnr.index()).expect("a world has fewer nets");
    let host = u8::try_from(station + 1).expect("a net has fewer stations");
    [
        Ipv4Addr::new(172, 16 + net, 0, host).into(),
        Ipv6Addr::new(0xfd00, 0xfffd, net.into(), 0, 0, 0, 0, host.into()).into(),
    ]
}

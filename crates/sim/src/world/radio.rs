//! Radio channels in a network: moving nodes form a MANET.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::World;
use crate::capture::LinkType;
use crate::engine::Port;
use crate::ids::{NodeId, PortId, RadioId};
use crate::mobility::{Motion, Position};
use crate::node::InterfaceConfig;
use crate::radio::{self, Air, StationId, Transmission};

/// Name prefix of radio interfaces.
const KIND: &str = "wlan";

/// The state of a node's radio needed for drawing.
#[derive(Clone, Copy, Debug)]
pub struct RadioState<'a> {
    /// How the node moves.
    pub motion: &'a Motion,
    /// Range of the radio, in metres.
    pub range: f64,
    /// Whether it is switched on.
    pub is_on: bool,
}

impl World {
    /// Adds a radio channel without stations.
    pub fn add_radio(&mut self, config: radio::Config) -> RadioId {
        let index = self.radios.len();
        let number = u8::try_from(index).ok().filter(|number| *number < 128);
        let number = number.expect("a world has fewer than 128 radio channels");
        let medium = self.add_medium(Air::new(radio::Medium::new(config, self.seed), number));
        self.radios.push((medium, Vec::new()));
        RadioId(super::small(index))
    }

    /// Gives a node a moving radio on a channel.
    ///
    /// Station `s` (from 0) of channel `r` gets the address of number `s + 1` in the network
    /// `10.(128 + r).0.0/16`, and `fd00:fffe:r::(s + 1)`. Any station may be the next hop of a route; only
    /// routes added explicitly exist.
    ///
    /// # Panics
    /// If the channel has 65,534 stations already.
    pub fn add_radio_station(
        &mut self,
        radio: RadioId,
        node: NodeId,
        motion: Motion,
        interface: InterfaceConfig,
    ) -> PortId {
        let (medium, ports) = &self.radios[radio.index()];
        let (medium, station) = (*medium, ports.len());
        let addresses = addresses(radio, station);
        let name = self.station_name(node, KIND);
        self.engine.on_medium(medium, |air: &mut Air, _| {
            air.radio_mut().add_station(&name, motion);
        });
        let port = self.attach(node, medium, KIND, interface);
        for address in addresses {
            self.add_address(port, address);
        }
        self.radios[radio.index()].1.push(port);
        port
    }

    /// Where the radio behind a port is now; `None` where the port is no radio.
    #[must_use]
    pub fn position(&self, port: PortId) -> Option<Position> {
        let (radio, station) = self.radio_station(port)?;
        Some(self.radio_medium(radio).position(station, self.engine.now))
    }

    /// The first radio of a node, or else its station on a combat net with positions.
    #[must_use]
    pub fn radio_state(&self, node: NodeId) -> Option<RadioState<'_>> {
        let interfaces = self.nodes[node.index()].interfaces.iter();
        let first = interfaces.filter_map(|interface| self.radio_station(interface.port)).next();
        let Some((radio, station)) = first else { return self.cnr_state(node) };
        let medium = self.radio_medium(radio);
        let range = medium.config().receive_range;
        Some(RadioState { motion: medium.motion(station), range, is_on: medium.is_on(station) })
    }

    /// Gives the radio behind a port another motion from now on; false where the port is no radio.
    pub fn set_motion(&mut self, port: PortId, motion: Motion) -> bool {
        let Some((_, station)) = self.radio_station(port) else { return false };
        let changed = self.engine.at_port(port, |air: &mut Air, _| {
            air.radio_mut().set_motion(station, motion);
        });
        changed.is_some()
    }

    /// The channel and the station behind a port.
    #[must_use]
    pub fn radio_station(&self, port: PortId) -> Option<(RadioId, StationId)> {
        let Port { medium, .. } = self.engine.ports.get(port.index())?;
        let radio = self.radios.iter().position(|(other, _)| other == medium)?;
        let station = self.medium::<Air>(*medium)?.station(port)?;
        Some((RadioId(super::small(radio)), station))
    }

    /// The ports of a channel's stations, in their order.
    #[must_use]
    pub fn radio_ports(&self, radio: RadioId) -> &[PortId] {
        &self.radios[radio.index()].1
    }

    /// The radio channel and the MACs of its stations.
    ///
    /// # Panics
    /// If the channel belongs to another world.
    #[must_use]
    pub fn radio_medium(&self, radio: RadioId) -> &radio::Medium {
        self.air(radio).radio()
    }

    /// Records from now on up to `limit` frames on the air, for [`World::poll_radio_record`]; more are
    /// counted by [`World::radio_records_dropped`]. With 0 no longer.
    pub fn record_radio(&mut self, radio: RadioId, limit: usize) {
        let (medium, _) = self.radios[radio.index()];
        self.engine.on_medium(medium, |air: &mut Air, _| air.record(limit));
    }

    /// The oldest record, in the order in which frames ended.
    pub fn poll_radio_record(&mut self, radio: RadioId) -> Option<Transmission> {
        let (medium, _) = self.radios[radio.index()];
        self.engine.on_medium(medium, |air: &mut Air, _| air.poll_record()).flatten()
    }

    /// Frames not recorded because `limit` records were already waiting.
    #[must_use]
    pub fn radio_records_dropped(&self, radio: RadioId) -> u64 {
        self.air(radio).records_dropped()
    }

    /// Captures every frame on a channel into `folder`/`radio-r.pcapng`, whatever became of it, as it ends.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn capture_radio(&mut self, radio: RadioId, folder: &Path) -> io::Result<()> {
        let (medium, ref ports) = self.radios[radio.index()];
        let names: Vec<_> =
            ports.iter().map(|port| self.name(self.node_of(*port)).to_owned()).collect();
        let file = format!("radio-{}.pcapng", radio.index());
        let capture = self.add_capture(folder, &file, &names, LinkType::Radiotap)?;
        self.engine.on_medium(medium, |air: &mut Air, _| air.capture(capture));
        Ok(())
    }

    /// Switches the radio behind a port on or off.
    pub(crate) fn set_radio(&mut self, port: PortId, is_on: bool) {
        let Port { node, interface, .. } = self.engine.ports[port.index()];
        self.engine.at_port(port, |air: &mut Air, delivery| air.set_on(delivery, port, is_on));
        self.nodes[node.index()].handle_link(&mut self.engine, interface, is_on);
    }

    fn air(&self, radio: RadioId) -> &Air {
        let (medium, _) = self.radios[radio.index()];
        self.medium::<Air>(medium).expect("a radio channel's medium is air")
    }
}

/// The addresses of a station.
fn addresses(radio: RadioId, station: usize) -> [IpAddr; 2] {
    let channel = u8::try_from(radio.index()).expect("a world has fewer than 128 radio channels");
    let number = u16::try_from(station + 1).ok().filter(|number| *number < u16::MAX);
    let number = number.expect("a channel has fewer than 65,535 stations");
    let [high, low] = number.to_be_bytes();
    [
        Ipv4Addr::new(10, 128 + channel, high, low).into(),
        Ipv6Addr::new(0xfd00, 0xfffe, channel.into(), 0, 0, 0, 0, number).into(),
    ]
}

//! Assumptions made where the paper is silent, and alternatives to them.

use std::time::Duration;

use manet::{aodv, dsdv};
use sim::service::routing::{RoutingConfig, RoutingProtocol, Unsent};
use sim::{InterfaceConfig, QueueDiscipline, radio};
use tcp::{adaptive_pacing, vegas};

use super::trial::{Assumed, Tcp};

/// Each flow sends a packet in its turn.
const FAIR: QueueDiscipline = QueueDiscipline::Fair { quantum: 1_500 };

impl Assumed {
    /// The channel of the radios.
    pub fn radio(self) -> radio::Config {
        let usual = radio::Config::default();
        match self {
            Self::FastControl => radio::Config { basic_rate: usual.data_rate, ..usual },
            Self::WithoutRts => radio::Config { rts_threshold: 3_000, ..usual },
            Self::WithoutCapture => radio::Config { capture: 100.0, ..usual },
            Self::Sense(metres) => radio::Config { sense_range: metres.into(), ..usual },
            _ => usual,
        }
    }

    /// The interface of a radio.
    pub fn interface(self, is_gateway: bool) -> InterfaceConfig {
        let queue_discipline = match self {
            Self::DropTail => QueueDiscipline::DropTail,
            _ if self.is_fair(is_gateway) => FAIR,
            _ => QueueDiscipline::RoutingFirst,
        };
        InterfaceConfig { queue_discipline, ..self.thinned() }
    }

    /// The interfaces of the wire between the gateway and the fixed host.
    pub fn wire(self) -> InterfaceConfig {
        let queue_discipline = if self.is_fair(true) { FAIR } else { QueueDiscipline::DropTail };
        InterfaceConfig { queue_discipline, ..self.thinned() }
    }

    fn is_fair(self, is_gateway: bool) -> bool {
        match self {
            Self::Fair => true,
            Self::FairGateway => is_gateway,
            _ => false,
        }
    }

    fn thinned(self) -> InterfaceConfig {
        let thins_acks = self == Self::Thin;
        InterfaceConfig { thins_acks, ..InterfaceConfig::default() }
    }

    /// AODV, which all addresses outside of `manet` are the Internet for.
    pub fn aodv(self, internet: aodv::Internet) -> RoutingConfig {
        let values = match self {
            Self::Hellos => aodv::Config { wait_after_reboot: false, ..aodv::Config::hello() },
            _ => aodv::Config::link_layer_feedback(),
        };
        let protocol = RoutingProtocol::Aodv(aodv::Config { internet, ..values });
        let mut config = RoutingConfig::new(protocol);
        match self {
            Self::DropUnsent => config.options.own_unsent = Unsent::Drop,
            Self::KeepQueue => config.options.recalls_queue = false,
            _ => {}
        }
        config
    }

    /// DSDV, where the gateway announces itself as the way to all else.
    pub fn dsdv(self, is_gateway: bool) -> RoutingConfig {
        let link_breaks = self == Self::LinkBreaks;
        let config = dsdv::Config { is_gateway, link_breaks, ..dsdv::Config::default() };
        RoutingConfig::new(RoutingProtocol::Dsdv(config))
    }

    /// The TCP of a flow that ends behind so many wires.
    pub fn tcp(self, tcp: Tcp, wires: u8) -> tcp::Config {
        let mut config = match tcp {
            Tcp::NewReno => crate::tcp::as_ns2(tcp::Config::default()),
            Tcp::Vegas => crate::tcp::ns2_vegas(2.0, 2.0, 1.0),
            Tcp::AdaptivePacing => crate::tcp::ns2_tcp_ap(),
            Tcp::Cubic => crate::tcp::as_linux(tcp::Config::default()),
        };
        match &mut config.congestion.algorithm {
            tcp::Algorithm::TcpAp(pacing) => self.pace(pacing, wires),
            tcp::Algorithm::Vegas(vegas) => match self {
                Self::Published => vegas.variant = vegas::Variant::Published,
                Self::Rebase => vegas.rebase = vegas::Rebase::Hops,
                _ => {}
            },
            _ => {}
        }
        match self {
            Self::Window(segments) => {
                let octets = usize::from(segments) * 1_460;
                config.receive_buffer = octets;
                config.congestion.initial_ssthresh = Some(octets as u64);
            }
            Self::DelayedAck => {
                let delay = Duration::from_millis(100);
                config.delayed_ack = tcp::DelayedAck { segments: 2, delay };
            }
            _ => {}
        }
        config
    }

    fn pace(self, pacing: &mut adaptive_pacing::Config, wires: u8) {
        let counts_wire = matches!(self, Self::CountsWire | Self::CountsWireAllHops);
        pacing.hops.wired = if counts_wire { 0 } else { wires };
        if matches!(self, Self::AllHops | Self::CountsWireAllHops) {
            pacing.short_path = adaptive_pacing::ShortPath::All;
        }
        if self == Self::Mad {
            pacing.variation = adaptive_pacing::Variation::Mad;
        }
        if self == Self::Published {
            pacing.variant = adaptive_pacing::Variant::Published;
            pacing.short_path = adaptive_pacing::ShortPath::All;
        }
    }
}

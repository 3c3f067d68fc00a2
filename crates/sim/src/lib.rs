//! Deterministic network simulation: the protocol cores in virtual time.
//!
//! ```text
//!  World ──▶ Queue ──▶ Node ──▶ Engine ──▶ Medium
//!   │ builds, runs,    IP stack, services,  when a packet leaves,
//!   │ reports          applications         when it arrives, and where
//! ```
//!
//! A run is a pure function of the world's description and its seed.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod app;
pub mod bench;
pub mod capture;
mod counters;
mod engine;
mod flows;
mod ids;
pub mod medium;
pub mod mobility;
mod node;
mod quantiles;
mod route_log;
mod series;
mod summary;
mod transits;
mod transmissions;
mod world;

pub use base::ip::Prefix;
pub use counters::{ByClass, Class, NodeCounters, PortCounters, Tally};
pub use engine::{Engine, PacketId};
pub use flows::FlowCounters;
pub use ids::{AppId, CnrId, HfId, LinkId, MediumId, NodeId, PortId, RadioId, TunnelId};
pub use medium::cnr;
pub use medium::hf;
pub use medium::radio;
pub use medium::wire::channel;
pub use node::service;
pub use node::service::tunnel::{TunnelCounters, TunnelReport};
pub use node::{CodingReport, INTERFACE, InterfaceConfig, NextHop, PassiveOpens, QueueDiscipline};
pub use quantiles::Quantiles;
pub use route_log::RouteRecord;
pub use summary::Summary;
pub use transits::Transit;
pub use transmissions::Transmission;
pub use world::{
    CarrierReport, Change, HfRecord, HfStation, LinkConfig, LinkReport, MEETING, NodeReport,
    Pending, PepConfig, RadioState, Report, Standstill, TcpncTunnel, TcpncTunnelConfig, World,
};

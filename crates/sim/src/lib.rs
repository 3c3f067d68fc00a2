//! Deterministic network simulation: the protocol cores in virtual time.
//!
//! ```text
//!  World ──▶ Queue ──▶ Node ──▶ Engine ──▶ Medium ──▶ Channel
//!   │ builds, runs,    IP stack, HBH,      packets,   when a packet leaves,
//!   │ reports          applications        counters   when it arrives
//! ```
//!
//! A run is a pure function of the world's description and its seed.

pub mod app;
pub mod bench;
pub mod capture;
pub mod channel;
mod counters;
mod engine;
mod flows;
pub mod hf;
mod ids;
mod node;
mod series;
mod summary;
mod transits;
pub mod units;
mod world;

pub use counters::{ByClass, Class, NodeCounters, PortCounters, Tally, TunnelCounters};
pub use flows::FlowCounters;
pub use ids::{AppId, HfId, LinkId, NodeId, PortId, TunnelId};
pub use node::{CodingReport, InterfaceConfig, NextHop, NotAPrefix, Prefix, Route};
pub use summary::Summary;
pub use transits::Transit;
pub use world::{
    CarrierReport, Change, HfRecord, HfStation, LinkConfig, LinkReport, NodeReport, Report,
    TcpncTunnel, TcpncTunnelConfig, TunnelReport, World,
};

//! The gateway: real traffic on Linux, hop by hop.
//!
//! ```text
//!   gateway      the loop: intercept, transmit, receive, release
//!   neighbours   who speaks HBH (hello)          firewall   what is intercepted (nftables)
//!   routes       the kernel's next hops          port       a MANET interface and our device for it
//!   redirect     what our device receives, received by the MANET interface
//!   offload      segments and checksums          sys        packet sockets, TAP, UDP
//!   secure       keys, handshakes, sealing       tunnel     any IP between gateways
//!   alone        a gateway without MANET interfaces     hf    clients and modems of HF radio
//! ```

mod alone;
mod complaints;
pub mod config;
mod control;
pub mod counters;
mod device;
pub mod firewall;
pub mod frame;
mod gateway;
pub mod hello;
pub mod hf;
mod ipclient;
pub mod links;
pub mod neighbours;
pub mod netlink;
pub mod offload;
mod port;
mod redirect;
mod rights;
pub mod routes;
pub mod secure;
mod services;
mod setup;
pub mod sys;
mod tunnel;

pub use config::Config;
pub use control::ask as ask_status;
pub use gateway::Gateway;

/// Carries traffic until told to end.
///
/// # Errors
/// When something is missing, with the remedy, or the gateway cannot go on.
pub fn run(config: Config) -> anyhow::Result<()> {
    if config.interfaces.is_empty() {
        alone::Alone::set_up(config)?.run()
    } else {
        Gateway::set_up(config)?.run()
    }
}

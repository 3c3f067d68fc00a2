//! The gateway: real traffic on Linux.
//!
//! ```text
//!   supervisor   signals, control socket, metrics: starts the services and watches them
//!   service      what carries traffic: hbh, tunnel, ipclient, s5066
//!   bearer       TCP connections that services ride on, made and accepted
//!   linux        the kernel's own: links, routes, devices, nftables, offload
//!   config       the configuration               keys     key files, and secrets from the system
//!   sys          system calls without a safe wrapper
//! ```

pub mod bearer;
pub mod config;
pub mod keys;
pub mod linux;
mod service;
mod setup;
mod supervisor;
pub mod sys;

pub use config::Config;
pub use supervisor::control::ask as ask_status;

/// Carries traffic until told to end.
///
/// # Errors
/// When something is missing, with the remedy, or the gateway cannot go on.
pub fn run(config: Config) -> anyhow::Result<()> {
    if config.interfaces.is_empty() {
        supervisor::alone::Alone::set_up(config)?.run()
    } else {
        service::hbh::Gateway::set_up(config)?.run()
    }
}

//! The gateway: real traffic on Linux.
//!
//! ```text
//!   supervisor   signals, control socket, metrics: starts the services and watches them
//!   service      carries traffic: hbh, tunnel, ipclient, s5066, and routing
//!   reactor      the loop that each of their threads runs
//!   bearer       TCP connections that services ride on, made and accepted
//!   linux        the kernel's own: links, routes, devices, nftables, offload
//!   config       the configuration               keys     key files, and secrets from the system
//!   files        the files of a configuration, also when we are root no more
//!   trust        opens a file only if none but trusted users could have changed it
//!   doctor       finds missing parts and obstacles of the host for a configuration
//!   ends         who asks for connections: HF nodes, and gateways over IP
//!   explain      the outcome for a flow, with reasons
//!   firewalls    how other firewalls of this host treat a flow
//!   tls          the ends of TLS for TCP relays: sessions, certificates, Auth IDs
//!   legacy       the state handed to the next process at a restart
//!   events       the last lines of the log, for later questions
//!   lines        how many lines a log may have
//!   sys          system calls without a safe wrapper
//! ```

pub mod bearer;
pub mod config;
pub mod doctor;
pub mod ends;
pub mod events;
pub mod explain;
mod files;
mod firewalls;
pub mod keys;
mod legacy;
pub mod lines;
pub mod linux;
mod reactor;
mod service;
mod supervisor;
pub mod sys;
pub mod tls;
mod trust;

pub use config::Config;
pub use host::run::own_file;
pub use service::sar_untrusted;
pub use supervisor::{
    HandedOver, NoGateway, Reloaded, Switched, ask_explanation, ask_hand_over, ask_peer,
    ask_reload, ask_status, ask_switch, keep_files, keep_folder, remove_left, run,
};

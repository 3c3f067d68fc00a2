//! What the gateway wants of the Linux host: kept whoever changes it, explained, and given back.
//!
//! ```text
//!   desired    devices, networks behind them, marked packets   ─┐
//!   plan       what to change, in which order: pure            ─┼─▶ reconcile ──▶ netlink, nft, settings
//!   (observed) what the kernel tells, and when it changes      ─┘        └──────▶ faults
//!
//!   entry      addresses, routes, rules: what they mean, and how netlink writes them
//!   fib        the routes of the MANET
//!   fence      the nftables table against packets in clear in the name of those behind a device
//!   settings   sysctls that were changed, and their values before
//!   links      interfaces and their addresses
//!   netlink    the kernel's socket      nft    the program of nftables      run    folders below /run
//! ```

pub mod desired;
pub mod entry;
pub mod fence;
pub mod fib;
mod left;
pub mod links;
pub mod netlink;
pub mod nft;
mod plan;
pub mod reconcile;
pub mod run;
pub mod settings;

pub use desired::{DeviceRoutes, Lead};
pub use entry::{Entry, MARK, Owner};
pub use left::remove_left;
pub use reconcile::{IN_CLEAR, Kept, Outcome, Precedence, Reconciler, Watch, give_up};

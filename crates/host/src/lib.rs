//! Keeps the gateway's wishes in the Linux host, whoever changes them: devices, routes, rules, tables and
//! settings. Everything is explained on request, and given back at the end.
//!
//! ```text
//!   desired    devices, networks behind them, marked packets   ─┐
//!   plan       what to change, in which order: pure            ─┼─▶ reconcile ──▶ netlink, nft, settings
//!   (observed) what the kernel tells, and when it changes      ─┘        └──────▶ faults
//!
//!   entry      addresses, routes, rules: what they mean, and how netlink writes them
//!   fault      kinds of faults, and which are shown
//!   fib        the routes of the MANET
//!   fence      the nftables table of a service against packets in clear, which stays after a crash
//!   beside     networks next to this host, whose packets must not leave another way once they are gone
//!   settings   sysctls that were changed, and their values before
//!   links      interfaces and their addresses
//!   routes     where the kernel would send a packet      others   rules of other programs
//!   timewait   connections of borrowed addresses that ended, and that the kernel is to forget
//!   numbers    tables, priorities, marks and protocol numbers that are ours
//!   pace       when to look again beside somebody who changes ours all the time
//!   observer   one subscription to the kernel's notices, for all services
//!   redirect   lets an interface receive what another one receives
//!   copies     says when the virtual machine was copied
//!   logged     packets that rules of nftables report
//!   netlink    the kernel's socket      nft    the program of nftables      run    folders below /run
//! ```

pub mod beside;
pub mod copies;
pub mod desired;
pub mod entry;
pub mod fault;
pub mod fence;
pub mod fib;
mod left;
pub mod links;
pub mod logged;
mod netlink;
pub mod nft;
pub mod numbers;
pub mod observer;
pub mod others;
pub mod pace;
mod plan;
pub mod reconcile;
pub mod redirect;
pub mod routes;
pub mod run;
pub mod settings;
pub mod timewait;

pub use desired::{DeviceRoutes, Lead};
pub use entry::{Entry, MARK, Owner};
pub use fault::Fault;
pub use left::{forget_counters, lost_settings, note_counters, remove_left};
pub use netlink::Kernel;
pub use observer::{Interest, Observer, Subscription};
pub use reconcile::{IN_CLEAR, Kept, Outcome, Precedence, Reconciler, Watch, give_up};

//! HF radio on real sockets: the clients of a STANAG 5066 node, and modems behind TCP.
//!
//! ```text
//!   client ─TCP─┐
//!   client ─TCP─┼─ server ⇄ a core: a node, or a modem for others
//!   client ─TCP─┘
//!                  station: server ⇄ node ⇄ dial ─TCP─ modem of others
//! ```

pub mod dial;
pub mod server;
mod station;

pub use dial::Dial;
pub use server::Server;
pub(crate) use station::set_up as set_up_station;

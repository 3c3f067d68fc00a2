//! TCP connections on real sockets: made again when they are lost, and accepted from many clients.
//!
//! ```text
//!   client ─TCP─┐
//!   client ─TCP─┼─ server ⇄ a core: a STANAG 5066 node, or a modem for others
//!   client ─TCP─┘
//!                  a core ⇄ dial ─TCP─ a modem or a STANAG 5066 server of others
//! ```

mod allow;
pub mod dial;
pub mod server;

pub use allow::{Allow, TurnedAway};
pub use dial::Dial;
pub use server::Server;

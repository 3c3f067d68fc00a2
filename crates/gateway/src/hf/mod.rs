//! HF radio on real sockets: the clients of a STANAG 5066 node, and modems behind TCP.
//!
//! ```text
//!   client ─TCP─┐
//!   client ─TCP─┼─▶ server ⇄ a core: a node, or a modem
//!   client ─TCP─┘
//! ```

pub mod dial;
pub mod server;

pub use dial::Dial;
pub use server::Server;

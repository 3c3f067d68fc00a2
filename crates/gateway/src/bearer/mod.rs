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

use std::net::SocketAddr;

use host::fault::{Fault, SILENT};

pub use allow::{Allow, TurnedAway};
pub use dial::Dial;
pub use server::Server;

/// The fault that somebody does not do what a service needs: `key` of the configuration names the address, and `does` says
/// what happens instead.
#[must_use]
pub fn unanswered(whom: &str, at: SocketAddr, key: &str, does: &str) -> Fault {
    let port = at.port();
    let said = format!(
        "{whom} at {at} {does}, and is tried again and again: start it, or name another as `{key}`; `ss -ltnp 'sport = \
         :{port}'` on its host shows who listens there"
    );
    Fault::new(&SILENT, said)
}

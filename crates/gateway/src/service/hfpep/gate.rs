//! What takes connections where descriptors may run out.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use host::fault::{self, Fault};
use nix::libc;
use tracing::warn;

use super::wire::reset_when_closed;

/// Takes connections.
#[derive(Debug)]
pub struct Gate {
    /// Given up to take a connection, and reset it, when there is no other descriptor: a connection
    /// that nobody takes would wake us up for ever.
    spare: Option<File>,
    turned_away: u64,
    /// Whether the last connection could not be taken.
    is_deaf: bool,
}

impl Gate {
    pub fn new() -> Self {
        Self { spare: spare(), turned_away: 0, is_deaf: false }
    }

    /// Accepts the next connection of a listener, if there is a connection and a descriptor.
    pub fn accept(&mut self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        let error = match listener.accept() {
            Ok(accepted) => {
                self.is_deaf = false;
                return Some(accepted);
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {
                return None;
            }
            _ => {}
        }
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            self.spare = None;
            let accepted = listener.accept().map(|(stream, _)| reset_when_closed(&stream, true));
            self.spare = spare();
            // The kernel looks for a descriptor before it looks whether anybody is there.
            if accepted.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                return None;
            }
        }
        self.turned_away += 1;
        self.is_deaf = true;
        // A flood of connections must not become a flood of log lines.
        if self.turned_away.is_power_of_two() {
            let times = self.turned_away;
            warn!(%error, times, "a connection cannot be taken, and is reset: raise LimitNOFILE");
        }
        None
    }

    /// Whether the last connection could not be taken, and the next could not be taken either.
    pub fn fault(&self) -> Option<Fault> {
        let is_short = || File::open("/dev/null").is_err();
        (self.is_deaf && is_short()).then(|| {
            let said = "hfpep: connections cannot be taken, and are reset: raise LimitNOFILE, or `ulimit -n`";
            Fault::new(&fault::DEAF, said)
        })
    }

    /// Connections that could not be taken.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

//! The control socket: an abstract Unix socket of the network namespace, which also makes sure
//! that only one gateway runs there.
//!
//! ```text
//!   client ── "status" or "reload", end ──▶ gateway
//!          ◀──────── JSON, end ────────────
//! ```
//! Everybody may ask for the status; only root and the gateway's own user may reload.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;

use super::reload::Reloaded;

const NAME: &[u8] = b"trackway";
/// A client that does not write or read is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// A gateway that reloads may have to wait for what it starts.
const ANSWER: Duration = Duration::from_secs(60);

/// What can be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Status,
    Reload,
}

/// The gateway's end.
#[derive(Debug)]
pub(super) struct Control(UnixListener);

/// One who asks.
#[derive(Debug)]
pub(super) struct Client(UnixStream);

impl Control {
    pub(super) fn open() -> anyhow::Result<Self> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        let listener = UnixListener::bind_addr(&address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => anyhow::anyhow!(
                "a gateway runs in this network namespace already: `trackway status` shows it"
            ),
            _ => anyhow::anyhow!("cannot open the control socket: {error}"),
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// One who asks, if there is one, and what.
    pub(super) fn accept(&self) -> Option<(Client, Request)> {
        let (stream, _) = self.0.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let mut asked = [0; Request::LEN];
        (&stream).read_exact(&mut asked).ok()?;
        let request = Request::ALL.into_iter().find(|request| *request.word() == asked)?;
        Some((Client(stream), request))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Client {
    /// Whether it may change what the gateway does.
    pub(super) fn may_change(&self) -> bool {
        let user =
            getsockopt(&self.0, sockopt::PeerCredentials).map(|who| Uid::from_raw(who.uid()));
        user.is_ok_and(|user| user.is_root() || user == Uid::effective())
    }

    pub(super) fn answer(mut self, text: &str) {
        // One that has gone does not want to know.
        let _ = self.0.write_all(text.as_bytes());
    }
}

impl Request {
    const ALL: [Self; 2] = [Self::Status, Self::Reload];
    /// Octets of each word.
    const LEN: usize = 6;

    fn word(self) -> &'static [u8; Self::LEN] {
        match self {
            Self::Status => b"status",
            Self::Reload => b"reload",
        }
    }
}

/// Asks the gateway of this network namespace how it is; the answer is a JSON object.
///
/// # Errors
/// When none runs.
pub fn ask_status() -> anyhow::Result<String> {
    ask(Request::Status)
}

/// Lets the gateway of this network namespace read its configuration again.
///
/// # Errors
/// When none runs.
pub fn ask_reload() -> anyhow::Result<Reloaded> {
    serde_json::from_str(&ask(Request::Reload)?).context("the gateway's answer")
}

fn ask(request: Request) -> anyhow::Result<String> {
    let address = SocketAddr::from_abstract_name(NAME)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no gateway runs in this network namespace: `trackway run FILE` starts one"
        ),
        _ => anyhow::anyhow!("cannot ask the gateway: {error}"),
    })?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(request.word()).context("the gateway does not listen")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("the gateway does not answer")?;
    Ok(answer)
}

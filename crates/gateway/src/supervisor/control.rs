//! The control socket: an abstract Unix socket of the network namespace, which also makes sure
//! that only one gateway runs there.
//!
//! ```text
//!   client ── request in JSON, end ──▶ gateway
//!          ◀─── answer in JSON, end ──
//! ```
//! Everybody may ask; only root and the gateway's own user may change anything.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::reload::Reloaded;
use super::traffic::{Switch, Switched};
use crate::explain::{Explanation, Question};

const NAME: &[u8] = b"trackway";
/// A client that does not write or read is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// A gateway that reloads may have to wait for what it starts.
const ANSWER: Duration = Duration::from_secs(60);

/// Octets of a request at most.
const LONGEST: u64 = 4 << 10;

/// What can be asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    Explain(Question),
    Reload,
    Status,
    Switch(Switch),
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
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let asked = read(&stream, Instant::now() + PATIENCE).ok()?;
        let request = serde_json::from_slice(&asked).ok()?;
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

    /// Answers with a line of JSON.
    pub(super) fn answer(mut self, answer: &impl Serialize) {
        if let Ok(mut text) = serde_json::to_vec(answer) {
            text.push(b'\n');
            // One that has gone does not want to know.
            let _ = self.0.write_all(&text);
        }
    }
}

/// All that a client says, which it has to by then.
fn read(stream: &UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut asked = Vec::new();
    let mut limited = stream.take(LONGEST);
    let mut some = [0; 512];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // A time-out of zero is an error.
        stream.set_read_timeout(Some(left))?;
        match limited.read(&mut some)? {
            0 => return Ok(asked),
            len => asked.extend_from_slice(&some[..len]),
        }
    }
}

/// Asks the gateway of this network namespace how it is; the answer is a JSON object.
///
/// # Errors
/// When none runs.
pub fn ask_status() -> anyhow::Result<String> {
    ask(&Request::Status)
}

/// Lets the gateway of this network namespace read its configuration again.
///
/// # Errors
/// When none runs.
pub fn ask_reload() -> anyhow::Result<Reloaded> {
    ask_for(&Request::Reload)
}

/// Lets the gateway of this network namespace carry the traffic of a rule, or all traffic of its HF
/// services, or refuse it.
///
/// # Errors
/// When none runs.
pub fn ask_switch(rule: Option<String>, is_enabled: bool) -> anyhow::Result<Switched> {
    ask_for(&Request::Switch(Switch { rule, is_enabled }))
}

/// Asks the gateway of this network namespace what becomes of a flow.
///
/// # Errors
/// When none runs.
pub fn ask_explanation(question: Question) -> anyhow::Result<Explanation> {
    ask_for(&Request::Explain(question))
}

fn ask_for<T: DeserializeOwned>(request: &Request) -> anyhow::Result<T> {
    serde_json::from_str(&ask(request)?).context("the gateway's answer")
}

fn ask(request: &Request) -> anyhow::Result<String> {
    let address = SocketAddr::from_abstract_name(NAME)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no gateway runs in this network namespace: `trackway run FILE` starts one"
        ),
        _ => anyhow::anyhow!("cannot ask the gateway: {error}"),
    })?;
    stream.set_read_timeout(Some(ANSWER))?;
    let request = serde_json::to_vec(request).context("the question")?;
    stream.write_all(&request).context("the gateway does not listen")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("the gateway does not answer")?;
    Ok(answer)
}

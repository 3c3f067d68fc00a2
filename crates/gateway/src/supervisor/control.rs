//! The control socket: an abstract Unix socket of the network namespace, which also makes sure
//! that only one gateway runs there.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::Context as _;

const NAME: &[u8] = b"trackway";
/// A reader that does not read is not waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// The gateway's end.
#[derive(Debug)]
pub(crate) struct Control(UnixListener);

impl Control {
    pub(crate) fn open() -> anyhow::Result<Self> {
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

    /// Answers one who asks, if there is one.
    pub(crate) fn answer(&self, status: impl FnOnce() -> String) {
        if let Ok((mut stream, _)) = self.0.accept() {
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_write_timeout(Some(PATIENCE));
            let _ = stream.write_all(status().as_bytes());
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Asks the gateway of this network namespace for its counters, as a JSON object.
///
/// # Errors
/// When none runs.
pub fn ask() -> anyhow::Result<String> {
    let address = SocketAddr::from_abstract_name(NAME)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no gateway runs in this network namespace: `trackway run FILE` starts one"
        ),
        _ => anyhow::anyhow!("cannot ask the gateway: {error}"),
    })?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut status = String::new();
    stream.read_to_string(&mut status).context("the gateway does not answer")?;
    Ok(status)
}

//! Tells the gateway of this network namespace from other programs that listen where its control socket would be.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use caps::Capability;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;

use host::run::namespace;

/// Whether a gateway of this network namespace answers at a socket.
pub fn is_alive(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok_and(|stream| is_gateway(&stream))
}

/// Whether the other end may be believed to be the gateway of this network namespace: root or we ourselves made its
/// socket, or the process that did may change this namespace's network, as every gateway may.
pub fn is_gateway(stream: &UnixStream) -> bool {
    // The kernel noted these when the socket began to listen: when a gateway was root still.
    let Ok(made_by) = getsockopt(stream, sockopt::PeerCredentials) else { return false };
    [0, Uid::effective().as_raw()].contains(&made_by.uid()) || may_change_network(made_by.pid())
}

/// The process at the other end, if a signal has stopped it, as SIGSTOP and debuggers do.
pub fn stopped(stream: &UnixStream) -> Option<i32> {
    let process = getsockopt(stream, sockopt::PeerCredentials).ok()?.pid();
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    state.trim_start().starts_with(['T', 't']).then_some(process)
}

fn may_change_network(process: i32) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let is_here = fs::metadata(folder.join("ns/net")).is_ok_and(|its| its.ino() == namespace());
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    is_here && rights.is_some_and(|rights| rights & Capability::CAP_NET_ADMIN.bitmask() != 0)
}

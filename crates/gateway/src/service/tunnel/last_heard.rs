//! Tells the next process of this gateway where peers are heard: the next process calls peers without a configured
//! address there. The lines wait in a pipe, so that no file remains.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;
use tracing::debug;
use tunnel::secure::{MAX_PEERS, PublicKey};

/// The name by which a successor finds the pipe.
pub const NAME: &str = "tunnel-peers";
/// Octets of a line at most: a key, an address of IPv6 with zone and port, a blank and the line's end.
const LINE: usize = 128;

/// The reading end of a pipe with a line for each peer. Lines for which the kernel has no room are left out: these peers
/// are called once they are heard.
///
/// # Errors
/// When there are no descriptors left.
pub fn written(heard: &[(PublicKey, SocketAddr)]) -> io::Result<OwnedFd> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let room = i32::try_from(MAX_PEERS * LINE).map_err(io::Error::other)?;
    // A user that has many pipes may have no larger one.
    let _ = fcntl(&write, FcntlArg::F_SETPIPE_SZ(room));
    let mut write = File::from(write);
    for (key, endpoint) in heard {
        // A line of this length is written whole or not at all.
        if let Err(error) = write.write_all(format!("{key} {endpoint}\n").as_bytes()) {
            debug!(%error, "not all peers are called at once after the restart");
            break;
        }
    }
    Ok(read)
}

/// What is in the pipe. Lines that cannot be read are left out.
pub fn read(left: OwnedFd) -> Vec<(PublicKey, SocketAddr)> {
    let limit = u64::try_from(MAX_PEERS * LINE).unwrap_or(u64::MAX);
    let mut octets = Vec::new();
    // The writing end is closed; should another process hold it, there is nothing more to wait for.
    if let Err(error) = File::from(left).take(limit).read_to_end(&mut octets)
        && error.kind() != ErrorKind::WouldBlock
    {
        debug!(%error, "where peers were heard is not known");
    }
    let text = String::from_utf8_lossy(&octets);
    let lines = text.lines().filter_map(|line| {
        let (key, endpoint) = line.split_once(' ')?;
        Some((key.parse().ok()?, endpoint.parse().ok()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use tunnel::secure::PrivateKey;

    use super::*;
    use crate::keys::System;

    #[test]
    fn as_many_peers_as_there_may_be_fit_into_a_pipe() {
        let key = PrivateKey::generate(&mut System).unwrap().public_key();
        let endpoint = "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535".parse().unwrap();
        let all = vec![(key, endpoint); MAX_PEERS];

        assert_eq!(read(written(&all).unwrap()), all);
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        let (left, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        File::from(write).write_all(b"\xff\nAAAA 192.0.2.1:1\nx\n").unwrap();

        assert_eq!(read(left), []);
    }
}

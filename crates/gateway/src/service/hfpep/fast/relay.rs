//! Moves octets from one connection to another, within the kernel unless TLS is in between.
//!
//! ```text
//!   from ─ splice ─▶ pipe ─ splice ─▶ to       what `to` does not take is kept with it
//!   from ─ read ───▶ buffer ─ write ▶ to       with TLS
//! ```
//! One pipe is enough for all connections: the pipe is empty between two turns, so an idle or blocked connection
//! needs none.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;

use crate::service::hfpep::connection::Connection;
use crate::service::hfpep::wire::Heard;
use crate::tls::Failure;

/// Most octets moved in one go, and most octets kept for a connection that takes none.
const PIECE: usize = 256 << 10;
/// Octets moved for one connection before others have their turn.
const TURN: usize = 1 << 20;

/// What octets are moved through.
#[derive(Debug)]
pub(super) struct Relay {
    /// Where they come out and go in.
    pipe: (File, OwnedFd),
    buffer: Box<[u8]>,
}

/// The progress of octets in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Carried {
    /// TLS failed, or was cut off.
    Failed(Failure),
    /// Whoever they are for is gone.
    Gone,
    /// No more octets now, or nobody takes them.
    Idle,
    /// There are more.
    More,
    /// Where they come from was reset, and all that came before was moved.
    Reset,
}

/// Whoever octets are for is gone.
struct Gone;

impl Relay {
    /// # Errors
    /// When there are no descriptors left.
    pub(super) fn new() -> anyhow::Result<Self> {
        let (out, into) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).context("cannot make a pipe")?;
        let size = i32::try_from(PIECE).context("the size of a pipe")?;
        // With the usual size it takes more turns.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(size));
        Ok(Self { pipe: (File::from(out), into), buffer: vec![0; PIECE].into_boxed_slice() })
    }

    /// Carries available octets from one connection to another, and the end of the stream behind them; adds their
    /// number to `octets`.
    pub(super) fn carry(
        &mut self,
        from: &mut Connection,
        to: &mut Connection,
        octets: &mut u64,
    ) -> Carried {
        let mut moved = 0;
        loop {
            if to.flush().is_err() {
                return Carried::Gone;
            }
            if to.has_unsent() || from.has_heard_end() {
                return Carried::Idle;
            }
            if moved >= TURN {
                return Carried::More;
            }
            let heard = match from.is_plain() && to.is_plain() {
                true => self.splice(from, to),
                false => self.copy(from, to),
            };
            match heard {
                Err(Gone) => return Carried::Gone,
                Ok(Heard::Octets(len)) => {
                    moved += len;
                    *octets += len as u64;
                }
                // The kernel tells of a reset once, and whoever wrote has heard it.
                Ok(Heard::End) if from.has_failed() && from.is_plain() => return Carried::Reset,
                Ok(Heard::End) => to.finish(),
                Ok(Heard::Failed(failure)) => return Carried::Failed(failure),
                Ok(Heard::Nothing) => return Carried::Idle,
                Ok(Heard::Reset) => return Carried::Reset,
            }
        }
    }

    fn copy(&mut self, from: &mut Connection, to: &mut Connection) -> Result<Heard, Gone> {
        let heard = from.read(&mut self.buffer);
        if let Heard::Octets(len) = heard {
            to.send(&self.buffer[..len]).map_err(|_| Gone)?;
        }
        Ok(heard)
    }

    fn splice(&mut self, from: &mut Connection, to: &mut Connection) -> Result<Heard, Gone> {
        let (out, into) = &self.pipe;
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        let len = match splice(&*from, None, into, None, PIECE, flags) {
            Ok(0) => {
                from.hear_end();
                return Ok(Heard::End);
            }
            Ok(len) => len,
            Err(Errno::EINTR) => return Ok(Heard::Octets(0)),
            Err(Errno::EAGAIN) => return Ok(Heard::Nothing),
            Err(_) => return Ok(Heard::Reset),
        };
        let mut left = len;
        while left > 0 {
            match splice(out, None, &*to, None, left, flags) {
                Ok(0) | Err(Errno::EAGAIN | Errno::EINTR) => break,
                Ok(taken) => left -= taken,
                Err(_) => {
                    to.fail();
                    // No other connection may find these octets in the pipe.
                    let _ = self.empty(left);
                    return Err(Gone);
                }
            }
        }
        let rest = self.empty(left).map_err(|_| Gone)?;
        to.send(rest).map_err(|_| Gone)?;
        Ok(Heard::Octets(len))
    }

    /// Reads the octets left in the pipe.
    fn empty(&mut self, left: usize) -> io::Result<&[u8]> {
        let rest = &mut self.buffer[..left];
        self.pipe.0.read_exact(rest)?;
        Ok(rest)
    }
}

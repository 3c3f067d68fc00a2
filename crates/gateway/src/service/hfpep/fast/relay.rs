//! Moves octets from one connection to another, within the kernel unless TLS is in between.
//!
//! ```text
//!   from ─ splice ─▶ pipe ─ splice ─▶ to       what `to` does not take is kept with it
//!   from ─ read ───▶ buffer ─ write ▶ to       with TLS
//! ```
//! What a gateway says of a target whose close is confirmed goes in [`hf::hfpep::pieces`], and not
//! through the pipe.
//!
//! One pipe is enough for all connections: the pipe is empty between two turns, so an idle or blocked connection
//! needs none.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use hf::hfpep::pieces::{self, Pieces, Word};
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
pub struct Relay {
    /// Where they come out and go in.
    pipe: (File, OwnedFd),
    buffer: Box<[u8]>,
}

/// The outcome of moving octets in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carried {
    /// TLS failed, or was cut off.
    Failed(Failure),
    /// The receiver is gone.
    Gone,
    /// The other gateway does not keep to the form of its octets.
    Malformed,
    /// No more octets now, or nobody takes them.
    Idle,
    /// There are more.
    More,
    /// The source was reset, and all octets before the reset were moved.
    Reset,
}

/// The form that octets get or have.
#[derive(Debug)]
pub enum Form<'a> {
    /// Octets come in pieces, and the content of the pieces goes on. The end is not told with them.
    FromPieces(&'a mut Pieces),
    /// They stay as they are.
    Plain,
    /// They go on in pieces, and the end as a word.
    ToPieces,
}

/// Why octets did not go on.
enum Stopped {
    /// Whoever they are for is gone.
    Gone,
    Malformed,
}

impl Relay {
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> anyhow::Result<Self> {
        let (out, into) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).context("cannot make a pipe")?;
        let size = i32::try_from(PIECE).context("the size of a pipe")?;
        // With the usual size it takes more turns.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(size));
        Ok(Self { pipe: (File::from(out), into), buffer: vec![0; PIECE].into_boxed_slice() })
    }

    /// Carries available octets from one connection to another, and the end of the stream behind them; adds their
    /// number to `octets`.
    pub fn carry(
        &mut self,
        from: &mut Connection,
        to: &mut Connection,
        octets: &mut u64,
        mut form: Form<'_>,
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
            let heard = match &mut form {
                Form::FromPieces(pieces) => self.unpack(from, to, pieces),
                Form::Plain if from.is_plain() && to.is_plain() => self.splice(from, to),
                Form::Plain => self.copy(from, to),
                Form::ToPieces => self.pack(from, to),
            };
            match heard {
                Err(Stopped::Gone) => return Carried::Gone,
                Err(Stopped::Malformed) => return Carried::Malformed,
                Ok(Heard::Octets(len)) => {
                    moved += len;
                    *octets += len as u64;
                }
                // The kernel tells of a reset once, and whoever wrote has heard it.
                Ok(Heard::End) if from.has_failed() && from.is_plain() => return Carried::Reset,
                Ok(Heard::End) => match &form {
                    Form::FromPieces(pieces) if pieces.finish().is_err() => return Carried::Reset,
                    Form::FromPieces(_) => {}
                    Form::Plain => to.finish(),
                    Form::ToPieces if to.send(&Word::End.octets()).is_err() => {
                        return Carried::Gone;
                    }
                    Form::ToPieces => {}
                },
                Ok(Heard::Failed(failure)) => return Carried::Failed(failure),
                Ok(Heard::Nothing) => return Carried::Idle,
                Ok(Heard::Reset) => return Carried::Reset,
            }
        }
    }

    fn copy(&mut self, from: &mut Connection, to: &mut Connection) -> Result<Heard, Stopped> {
        let heard = from.read(&mut self.buffer);
        if let Heard::Octets(len) = heard {
            to.send(&self.buffer[..len]).map_err(|_| Stopped::Gone)?;
        }
        Ok(heard)
    }

    fn pack(&mut self, from: &mut Connection, to: &mut Connection) -> Result<Heard, Stopped> {
        let heard = from.read(&mut self.buffer[pieces::HEAD..pieces::HEAD + pieces::MOST]);
        if let Heard::Octets(len) = heard {
            self.buffer[..pieces::HEAD].copy_from_slice(&pieces::head(len));
            to.send(&self.buffer[..pieces::HEAD + len]).map_err(|_| Stopped::Gone)?;
        }
        Ok(heard)
    }

    fn unpack(
        &mut self,
        from: &mut Connection,
        to: &mut Connection,
        pieces: &mut Pieces,
    ) -> Result<Heard, Stopped> {
        let heard = from.read(&mut self.buffer);
        let Heard::Octets(len) = heard else { return Ok(heard) };
        let kept = pieces.take(&mut self.buffer[..len]).map_err(|_| Stopped::Malformed)?;
        to.send(&self.buffer[..kept]).map_err(|_| Stopped::Gone)?;
        Ok(Heard::Octets(kept))
    }

    fn splice(&mut self, from: &mut Connection, to: &mut Connection) -> Result<Heard, Stopped> {
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
                    return Err(Stopped::Gone);
                }
            }
        }
        let rest = self.empty(left).map_err(|_| Stopped::Gone)?;
        to.send(rest).map_err(|_| Stopped::Gone)?;
        Ok(Heard::Octets(len))
    }

    /// Reads the octets left in the pipe.
    fn empty(&mut self, left: usize) -> io::Result<&[u8]> {
        let rest = &mut self.buffer[..left];
        self.pipe.0.read_exact(rest)?;
        Ok(rest)
    }
}

//! A TCP socket as a place for plain octets, whether TLS is spoken over it or not.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc::linger;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use crate::sys::tcp::has_heard_end;
use crate::tls::{Failure, Plain, Session, Terms};

/// Seconds for which a connection may be silent until its host is asked whether it is still there,
/// ...
const IDLE: u32 = 600;
/// ... seconds between such questions, ...
const PROBE: u32 = 60;
/// ... and how many are not answered until the connection is broken.
const PROBES: u32 = 5;
/// Octets that are taken from a socket for TLS in one go.
const READ: usize = 16 << 10;

/// A socket, and TLS over it if TLS ends here.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
}

/// A client and its target, for the log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Parties {
    /// `None` where the far end names an Auth ID instead.
    pub client: Option<SocketAddr>,
    pub target: Option<SocketAddr>,
}

#[derive(Debug)]
struct Tls {
    session: Session,
    /// Who speaks with whom.
    parties: Parties,
    /// Octets of the socket that the session has not taken.
    untaken: Vec<u8>,
}

impl fmt::Display for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            Some(client) => write!(f, "client {client}")?,
            None => f.write_str("a client of the far end")?,
        }
        self.target.map_or(Ok(()), |target| write!(f, ", target {target}"))
    }
}

/// What reading gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// The program at the other side has finished.
    End,
    /// TLS failed, or was cut off.
    Failed(Failure),
    /// Nothing now.
    Nothing,
    /// So many octets.
    Octets(usize),
    /// The connection was reset.
    Reset,
}

impl Wire {
    /// A socket over which TLS is spoken if there is a session.
    pub fn new(stream: TcpStream, session: Option<(Session, Parties)>) -> Self {
        // Small pieces are sent at once; the radio gathers them.
        let _ = stream.set_nodelay(true);
        // Only `close` ends a connection in order: everything else that closes the socket, even the end of this
        // process, resets the connection.
        reset_when_closed(&stream, true);
        let tls = |(session, parties)| Box::new(Tls { session, parties, untaken: Vec::new() });
        let tls = session.map(tls);
        Self { stream, tls }
    }

    /// The same to a program, which is asked now and then whether it is still there.
    pub fn to_program(stream: TcpStream, session: Option<(Session, Parties)>) -> Self {
        // A host that has vanished without a word is noticed though nothing is sent to it.
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let _ = setsockopt(&stream, sockopt::TcpKeepIdle, &IDLE);
        let _ = setsockopt(&stream, sockopt::TcpKeepInterval, &PROBE);
        let _ = setsockopt(&stream, sockopt::TcpKeepCount, &PROBES);
        Self::new(stream, session)
    }

    /// Whether TLS is spoken here.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The client and the target of the TLS session, if known here.
    pub fn parties(&self) -> Parties {
        self.tls.as_ref().map(|tls| tls.parties).unwrap_or_default()
    }

    /// The outcome of the attempt to connect the socket.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn take_answer(&self) -> io::Result<()> {
        match getsockopt(&self.stream, sockopt::SocketError).unwrap_or(0) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Continues the handshake; returns the agreed terms as soon as the handshake is complete.
    ///
    /// # Errors
    /// When it fails; the other side has been told.
    pub fn greet(&mut self) -> Result<Option<&Terms>, Failure> {
        let Self { stream, tls: Some(tls) } = self else { return Ok(None) };
        while tls.session.terms().is_none() {
            let heard = tls.receive(stream);
            if tls.transmit(stream).is_err_and(|error| !is_passing(&error)) {
                return Err(Failure::EndedEarly);
            }
            match heard {
                Heard::Octets(_) => {}
                Heard::Nothing => break,
                Heard::Failed(failure) => return Err(failure),
                Heard::End | Heard::Reset => return Err(Failure::EndedEarly),
            }
        }
        Ok(tls.session.terms())
    }

    /// Whether the socket has octets that nobody has read.
    pub fn has_unread(&self) -> bool {
        matches!(self.stream.peek(&mut [0]), Ok(1..))
    }

    /// Whether the other side's host has said that nothing more follows.
    pub fn has_ended(&self) -> bool {
        has_heard_end(&self.stream)
    }

    /// Reads plain octets.
    pub fn read(&mut self, into: &mut [u8]) -> Heard {
        let Self { stream, tls } = self;
        let Some(tls) = tls else {
            return match stream.read(into) {
                Ok(0) => Heard::End,
                Ok(len) => Heard::Octets(len),
                Err(error) if is_passing(&error) => Heard::Nothing,
                Err(_) => Heard::Reset,
            };
        };
        loop {
            match tls.session.read(into) {
                Plain::Octets(len) => return Heard::Octets(len),
                Plain::End => return Heard::End,
                Plain::Broken => return Heard::Reset,
                Plain::Nothing => {}
            }
            let heard = tls.receive(stream);
            if !matches!(heard, Heard::Octets(_)) {
                // An alert, or an answer to what needs no reader.
                let _ = tls.transmit(stream);
                return heard;
            }
        }
    }

    /// Takes plain octets, and returns how many.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` when there is no room now.
    pub fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let Self { stream, tls } = self;
        let Some(tls) = tls else { return stream.write(plain) };
        match tls.session.write(plain) {
            0 => {
                tls.transmit(stream)?;
                match tls.session.write(plain) {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    len => Ok(len),
                }
            }
            len => Ok(len),
        }
    }

    /// Writes the octets taken so far that wait for the socket.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` when it does not take all now.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.transmit(&mut self.stream),
            None => Ok(()),
        }
    }

    /// Tells the other side that no more data follows.
    ///
    /// # Errors
    /// As for [`Self::flush`]: it is to be called again.
    pub fn end(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.session.end();
        }
        self.flush()?;
        let _ = self.stream.shutdown(Shutdown::Write);
        Ok(())
    }

    /// Whether the socket has to take something.
    pub fn wants_flush(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.wants_transmit())
    }

    /// Closes it in peace: what the kernel has is still delivered, and the end behind it.
    pub fn close(self) {
        reset_when_closed(&self.stream, false);
    }

    /// Breaks it off: the program at the other side gets a reset.
    pub fn abort(self) {
        drop(self);
    }
}

/// Sets whether closing a connection resets it, even at the end of this process. Without a reset, the end of this
/// process looks like an orderly close.
pub fn reset_when_closed(stream: &TcpStream, resets: bool) {
    let linger = linger { l_onoff: resets.into(), l_linger: 0 };
    let _ = setsockopt(stream, sockopt::Linger, &linger);
}

impl Tls {
    /// Moves octets from the socket to the session.
    fn receive(&mut self, stream: &mut TcpStream) -> Heard {
        if !self.untaken.is_empty() {
            return match self.session.receive(&self.untaken) {
                Ok(taken) => {
                    self.untaken.drain(..taken);
                    Heard::Octets(taken)
                }
                Err(failure) => Heard::Failed(failure),
            };
        }
        let mut octets = [0; READ];
        let len = match stream.read(&mut octets) {
            Ok(0) => {
                return match self.session.receive_end() {
                    Ok(()) => Heard::End,
                    Err(failure) => Heard::Failed(failure),
                };
            }
            Ok(len) => len,
            Err(error) if is_passing(&error) => return Heard::Nothing,
            Err(_) => return Heard::Reset,
        };
        match self.session.receive(&octets[..len]) {
            Ok(taken) => {
                self.untaken = octets[taken..len].to_vec();
                Heard::Octets(len)
            }
            Err(failure) => Heard::Failed(failure),
        }
    }

    fn transmit(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.session.wants_transmit() {
            self.session.transmit(stream)?;
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whether an operation is to be tried again.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

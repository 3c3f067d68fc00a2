//! TCP connections for tests: transfers and flows in the background, and single connections.
//!
//! A failure here panics, and so fails the test.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::{SOON, wait_until};

/// How long either end waits for the other.
const PATIENCE: Duration = SOON;
const PIECE: usize = 4_096;

/// Octets of a transfer that goes on until told to end.
pub const ENDLESS: usize = usize::MAX;

/// A running transfer. The octets differ between transfers, so octets of another transfer are noticed.
#[derive(Debug)]
pub struct Transfer {
    /// Octets to send; 0 once the transfer is to end.
    octets: Arc<AtomicUsize>,
    received: Arc<AtomicUsize>,
    /// The result: octets sent.
    sender: Option<JoinHandle<io::Result<usize>>>,
    /// The result: whether all octets were right.
    receiver: Option<JoinHandle<io::Result<bool>>>,
}

impl Transfer {
    /// Connects a namespace to an address of another, and starts to send.
    #[must_use]
    pub fn start(from: &str, (to, address): (&str, &str), octets: usize) -> Self {
        let connect = |to: &SocketAddr| TcpStream::connect_timeout(to, PATIENCE).unwrap();
        Self::begin(from, (to, address), octets, connect)
    }

    /// As [`Self::start`], with the address of the sender. Tries again while there is no route, such as while a routing
    /// daemon replaces a route.
    #[must_use]
    pub fn start_from((from, source): (&str, &str), to: (&str, &str), octets: usize) -> Self {
        let source = SocketAddr::new(source.parse().unwrap(), 0);
        let connect = |to: &SocketAddr| {
            let mut called = Err(ErrorKind::NetworkUnreachable);
            wait_until(PATIENCE, || {
                called = call(Some(source), *to, 0, PATIENCE);
                called.as_ref().err() != Some(&ErrorKind::NetworkUnreachable)
            });
            called.unwrap()
        };
        Self::begin(from, to, octets, connect)
    }

    fn begin(
        from: &str,
        (to, address): (&str, &str),
        octets: usize,
        connect: impl FnOnce(&SocketAddr) -> TcpStream + Send,
    ) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let listener = within(to, || TcpListener::bind((address, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let stream = within(from, move || connect(&to));
        let (accepted, _) = listener.accept().unwrap();
        let key = to.port();
        let received = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&received);
        let octets = Arc::new(AtomicUsize::new(octets));
        let limit = Arc::clone(&octets);
        Self {
            octets,
            received,
            sender: Some(thread::spawn(move || send(stream, key, &limit))),
            receiver: Some(thread::spawn(move || receive(accepted, key, &count))),
        }
    }

    /// Waits until so many octets have arrived.
    pub fn wait_for(&self, octets: usize, at_most: Duration) {
        let has_them = wait_until(at_most, || self.received() >= octets);
        assert!(has_them, "{} of {octets} octets arrived", self.received());
    }

    /// How many octets have arrived.
    #[must_use]
    pub fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until all octets have arrived, and checks them.
    pub fn finish(self, at_most: Duration) {
        self.wait_for(self.octets.load(Ordering::Relaxed), at_most);
        self.end();
    }

    /// Sends no more, waits until all sent octets have arrived, and checks them.
    pub fn end(mut self) {
        self.octets.store(0, Ordering::Relaxed);
        let sent = self.sender.take().unwrap().join().unwrap().unwrap();
        assert!(self.receiver.take().unwrap().join().unwrap().unwrap(), "other octets arrived");
        assert_eq!(self.received(), sent);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.octets.store(0, Ordering::Relaxed);
    }
}

/// A TCP connection with a few octets at a time, to measure the longest silence at the receiver.
#[derive(Debug)]
pub struct Flow {
    is_over: Arc<AtomicBool>,
    /// The longest silence at the receiver, in microseconds.
    silence: Arc<AtomicU64>,
    octets: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    /// Connects a namespace to an address of another, and sends a segment after each pause.
    #[must_use]
    pub fn start(from: &str, (to, address): (&str, &str), pause: Duration) -> Self {
        let listener = within(to, || TcpListener::bind((address, 0)).unwrap());
        let at = listener.local_addr().unwrap();
        let mut near = within(from, || TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        let (mut far, _) = listener.accept().unwrap();
        near.set_nodelay(true).unwrap();
        near.set_write_timeout(Some(PATIENCE)).unwrap();
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let [silence, octets] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let ends = Arc::clone(&is_over);
        let sender = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                near.write_all(&[7; 400]).unwrap();
                thread::sleep(pause);
            }
        });
        let (longest, count) = (Arc::clone(&silence), Arc::clone(&octets));
        let receiver = thread::spawn(move || {
            let (mut some, mut last) = ([0; 65_536], Instant::now());
            while let len @ 1.. = far.read(&mut some).unwrap() {
                let silent = u64::try_from(last.elapsed().as_micros()).unwrap();
                longest.fetch_max(silent, Ordering::Relaxed);
                count.fetch_add(len as u64, Ordering::Relaxed);
                last = Instant::now();
            }
        });
        Self { is_over, silence, octets, threads: vec![sender, receiver] }
    }

    /// Waits until so many more octets have come.
    pub fn wait_for(&self, octets: u64) {
        let aim = self.octets.load(Ordering::Relaxed) + octets;
        let comes = wait_until(PATIENCE, || self.octets.load(Ordering::Relaxed) >= aim);
        assert!(comes, "{} of {aim}", self.octets.load(Ordering::Relaxed));
    }

    /// The longest silence since the last call of [`Self::forget`].
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_micros(self.silence.load(Ordering::Relaxed))
    }

    /// Begins to measure anew.
    pub fn forget(&self) {
        self.silence.store(0, Ordering::Relaxed);
    }

    /// Sends no more, and waits until all has arrived.
    pub fn end(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Acts in a namespace.
fn within<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> T {
    emulator::namespace::within(name, act).unwrap()
}

fn send(mut stream: TcpStream, key: u16, octets: &AtomicUsize) -> io::Result<usize> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sent = 0;
    while let left @ 1.. = octets.load(Ordering::Relaxed).saturating_sub(sent) {
        let len = PIECE.min(left);
        let piece: Vec<u8> = (sent..sent + len).map(|at| octet(key, at)).collect();
        stream.write_all(&piece)?;
        sent += len;
    }
    Ok(sent)
}

fn receive(mut stream: TcpStream, key: u16, received: &AtomicUsize) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut piece = [0; PIECE];
    let mut is_right = true;
    loop {
        let len = stream.read(&mut piece)?;
        if len == 0 {
            return Ok(is_right);
        }
        let before = received.load(Ordering::Relaxed);
        is_right &= (before..).zip(&piece[..len]).all(|(at, got)| octet(key, at) == *got);
        received.store(before + len, Ordering::Relaxed);
    }
}

fn octet(key: u16, at: usize) -> u8 {
    (at / 251).to_le_bytes()[0] ^ at.to_le_bytes()[0] ^ key.to_le_bytes()[0]
}

/// Connects from the thread's namespace, from the address `from` if given.
///
/// # Errors
/// As the kernel says; `TimedOut` when nobody has answered in time.
///
/// # Panics
/// When the kernel gives no socket.
pub fn call(
    from: Option<SocketAddr>,
    to: SocketAddr,
    dscp: u8,
    patience: Duration,
) -> Result<TcpStream, ErrorKind> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    if to.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(dscp << 2)).unwrap();
    } else {
        setsockopt(&socket, sockopt::Ipv6TClass, &i32::from(dscp << 2)).unwrap();
    }
    let timeout =
        TimeVal::new(patience.as_secs().try_into().unwrap(), patience.subsec_micros().into());
    setsockopt(&socket, sockopt::SendTimeout, &timeout).unwrap();
    setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
    if let Some(from) = from {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(from)).unwrap();
    }
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => {
            let stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(SOON)).unwrap();
            Ok(stream)
        }
        // The kernel's error when nobody has answered in time.
        Err(Errno::EINPROGRESS) => Err(ErrorKind::TimedOut),
        Err(error) => Err(io::Error::from(error).kind()),
    }
}

//! A client of the subnetwork interface that writes raw octets, so that tests can send wrong ones.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// Types of primitives.
pub const BIND_ACCEPTED: u8 = 3;
pub const BIND_REJECTED: u8 = 4;
pub const SUBNET_AVAILABILITY: u8 = 14;
pub const UNIDATA_INDICATION: u8 = 21;
pub const UNIDATA_CONFIRM: u8 = 22;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

/// What came from the node: the type, and the rest.
#[derive(Debug)]
pub struct Primitive {
    pub kind: u8,
    pub body: Vec<u8>,
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A primitive in its envelope.
pub fn envelope(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 1).unwrap().to_be_bytes();
    [&[0x90, 0xeb, 0, size[0], size[1], kind][..], body].concat()
}

/// A request to carry octets with ARQ, confirmed by the node, as they arrive, for 120 s.
pub fn unidata(priority: u8, to: [u8; 4], sap: u8, octets: &[u8]) -> Vec<u8> {
    let size = u16::try_from(octets.len()).unwrap().to_be_bytes();
    let body = [&[priority << 4 | sap][..], &to, &[0x16, 0x00, 0, 60], &size, octets].concat();
    envelope(20, &body)
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub fn write(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    pub fn bind(&mut self, sap: u8, rank: u8) {
        // ARQ, confirmed by the node, as they arrive.
        self.write(&envelope(1, &[sap << 4 | rank, 0x16, 0]));
    }

    pub fn expect_bound(&mut self, sap: u8) {
        let answer = self.expect(BIND_ACCEPTED);
        assert_eq!(answer.body, [sap << 4, 8, 0]);
    }

    pub fn send(&mut self, to: [u8; 4], sap: u8, octets: &[u8]) {
        self.write(&unidata(0, to, sap, octets));
    }

    /// The octets of the next U_PDU that arrives.
    pub fn receive(&mut self) -> Vec<u8> {
        self.expect(UNIDATA_INDICATION).body.split_off(12)
    }

    /// The next primitive of this type; others before it are forgotten.
    pub fn expect(&mut self, kind: u8) -> Primitive {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next(deadline) {
                Some(primitive) if primitive.kind == kind => return primitive,
                Some(_) => {}
                None => panic!("no primitive of type {kind} came"),
            }
        }
    }

    /// The next primitive; none at the end of the connection or of patience.
    pub fn next(&mut self, deadline: Instant) -> Option<Primitive> {
        loop {
            if let Some(primitive) = self.take() {
                return Some(primitive);
            }
            if !self.fill() || Instant::now() > deadline {
                return None;
            }
        }
    }

    /// Whether the node closes the connection by then.
    pub fn is_closed_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if !self.fill() {
                return true;
            }
            self.received.clear();
        }
        false
    }

    fn take(&mut self) -> Option<Primitive> {
        let header = self.received.get(..6)?;
        assert_eq!(header[..3], [0x90, 0xeb, 0], "{header:?}");
        let end = 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
        let kind = header[5];
        if self.received.len() < end {
            return None;
        }
        let rest = self.received.split_off(end);
        let body = std::mem::replace(&mut self.received, rest).split_off(6);
        Some(Primitive { kind, body })
    }

    /// Waits a moment for more; false at the end of the connection.
    fn fill(&mut self) -> bool {
        let mut piece = [0; 4_096];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(len) => {
                self.received.extend_from_slice(&piece[..len]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

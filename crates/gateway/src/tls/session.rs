//! A session: TLS on one side, plain octets on the other.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::server::{Accepted, Acceptor};
use rustls::{AlertDescription, ClientConfig, ClientConnection, Connection, ProtocolVersion};

use super::failure::{Failure, MAX_HELLO};
use super::names::AuthId;
use super::server::Server;

/// Octets that may wait for transmission, besides the record in the making.
const MAX_UNSENT: usize = 64 << 10;
/// Unread plain octets beyond which no more input is taken; the library's own bound. Input taken below the
/// bound may add as much again and a record.
const MAX_UNREAD: usize = 16 << 10;
/// The first octet of a handshake.
const HANDSHAKE: u8 = 22;
/// What servers without ALPN speak to web browsers.
const WITHOUT_ALPN: &[u8] = b"http/1.1";

/// A session, from the first octet to the last.
///
/// Octets from TCP go in by [`Self::receive`] and [`Self::receive_end`], and octets for TCP come out by
/// [`Self::transmit`]; plain octets go in and out by [`Self::write`] and [`Self::read`]. A failure is
/// reported once; then only its alert is left to transmit, and only octets received before it are left
/// to read.
pub struct Session {
    engine: Engine,
    side: Side,
    terms: Option<Terms>,
    /// Plain octets that wait to be read.
    unread: usize,
    has_failed: bool,
    /// We have said that nothing follows.
    has_ended: bool,
}

/// What a client asks for before anything is encrypted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hello {
    /// The server it wants.
    pub sni: Option<String>,
    /// The application protocol chosen for the client.
    pub alpn: Option<Vec<u8>>,
}

/// Terms agreed between the two sides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms {
    /// The server's name, where one was said.
    pub sni: Option<String>,
    /// The application protocol.
    pub alpn: Option<Vec<u8>>,
    /// The client's Auth ID, if the client showed a certificate.
    pub auth_id: Option<AuthId>,
    /// Whether the session uses TLS 1.3; otherwise 1.2.
    pub is_tls13: bool,
}

/// The outcome of reading plain octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plain {
    /// The session failed, or was cut off: what follows is lost.
    Broken,
    /// The other side has said that nothing follows.
    End,
    /// Nothing for now.
    Nothing,
    /// So many octets.
    Octets(usize),
}

enum Engine {
    /// The hello is incomplete; its octets so far.
    Hello(Box<Acceptor>, usize),
    Connection(Box<Connection>),
    /// The session failed before there was a connection: the alert for the client.
    Refused(Vec<u8>),
}

enum Side {
    Client { sni: Option<String>, alpn: Option<Vec<u8>> },
    Server { server: Arc<Server>, hello: Option<Hello> },
}

impl Session {
    /// The session of a local client that has just connected.
    #[must_use]
    pub fn accept(server: &Arc<Server>) -> Self {
        let engine = Engine::Hello(Box::default(), 0);
        Self::new(engine, Side::Server { server: Arc::clone(server), hello: None })
    }

    pub(crate) fn connect(
        config: &ClientConfig,
        name: ServerName<'static>,
        alpn: Option<&[u8]>,
    ) -> Result<Self, Failure> {
        if alpn.is_some_and(|alpn| alpn.is_empty() || alpn.len() > usize::from(u8::MAX)) {
            return Err(Failure::InvalidName);
        }
        let mut config = config.clone();
        config.alpn_protocols = alpn.map(<[u8]>::to_vec).into_iter().collect();
        let sni = match &name {
            ServerName::DnsName(name) => Some(name.as_ref().to_owned()),
            _ => None,
        };
        let connection =
            ClientConnection::new(Arc::new(config), name).map_err(|why| Failure::from(&why))?;
        let mut connection = Connection::Client(connection);
        connection.set_buffer_limit(Some(MAX_UNSENT));
        let side = Side::Client { sni, alpn: alpn.map(<[u8]>::to_vec) };
        Ok(Self::new(Engine::Connection(Box::new(connection)), side))
    }

    fn new(engine: Engine, side: Side) -> Self {
        Self { engine, side, terms: None, unread: 0, has_failed: false, has_ended: false }
    }

    /// The names asked for by the local client, as soon as its hello is complete.
    #[must_use]
    pub fn hello(&self) -> Option<&Hello> {
        match &self.side {
            Side::Client { .. } => None,
            Side::Server { hello, .. } => hello.as_ref(),
        }
    }

    /// The agreed terms, once the handshake is complete.
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Takes octets from TCP, and returns how many: fewer than all only while plain octets have to be
    /// read first.
    ///
    /// # Errors
    /// When the session fails. It is told once; what follows is taken and forgotten.
    pub fn receive(&mut self, octets: &[u8]) -> Result<usize, Failure> {
        if self.has_failed {
            return Ok(octets.len());
        }
        self.take(octets).inspect_err(|_| self.has_failed = true)
    }

    /// TCP has ended: nothing follows.
    ///
    /// # Errors
    /// When the other side has not said that it ends: somebody on the way may have cut it off.
    pub fn receive_end(&mut self) -> Result<(), Failure> {
        let is_right = match &mut self.engine {
            Engine::Connection(connection) => {
                let io = connection.process_new_packets();
                io.is_ok_and(|io| io.peer_has_closed())
            }
            Engine::Hello(..) | Engine::Refused(_) => false,
        };
        if is_right || self.has_failed {
            return Ok(());
        }
        self.has_failed = true;
        Err(if self.terms.is_some() { Failure::Cut } else { Failure::EndedEarly })
    }

    /// Whether plain octets have to be read before more are taken from TCP.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.unread >= MAX_UNREAD
    }

    /// Reads plain octets.
    pub fn read(&mut self, into: &mut [u8]) -> Plain {
        if let Engine::Connection(connection) = &mut self.engine {
            match connection.reader().read(into) {
                Ok(0) if !into.is_empty() && !self.has_failed => return Plain::End,
                Ok(0) | Err(_) => {}
                Ok(count) => {
                    self.unread = self.unread.saturating_sub(count);
                    return Plain::Octets(count);
                }
            }
        }
        if self.has_failed { Plain::Broken } else { Plain::Nothing }
    }

    /// Takes plain octets to be sent, and returns how many: none before the handshake is complete,
    /// and fewer than all while too much waits to be transmitted.
    pub fn write(&mut self, plain: &[u8]) -> usize {
        let is_open = self.terms.is_some() && !self.has_failed && !self.has_ended;
        match &mut self.engine {
            Engine::Connection(connection) if is_open => {
                connection.writer().write(plain).unwrap_or(0)
            }
            Engine::Connection(_) | Engine::Hello(..) | Engine::Refused(_) => 0,
        }
    }

    /// Ends our direction; the other side may go on.
    pub fn end(&mut self) {
        if let Engine::Connection(connection) = &mut self.engine
            && self.terms.is_some()
        {
            connection.send_close_notify();
            self.has_ended = true;
        }
    }

    /// Whether TCP has something to take.
    #[must_use]
    pub fn wants_transmit(&self) -> bool {
        match &self.engine {
            Engine::Connection(connection) => connection.wants_write(),
            Engine::Hello(..) => false,
            Engine::Refused(alert) => !alert.is_empty(),
        }
    }

    /// Writes to TCP what waits for it, and returns how many octets were taken.
    ///
    /// # Errors
    /// Those of `tcp`: nothing that it did not take is lost.
    pub fn transmit(&mut self, tcp: &mut dyn io::Write) -> io::Result<usize> {
        match &mut self.engine {
            Engine::Connection(connection) => connection.write_tls(tcp),
            Engine::Hello(..) => Ok(0),
            Engine::Refused(alert) => {
                let count = tcp.write(alert)?;
                alert.drain(..count);
                Ok(count)
            }
        }
    }

    fn take(&mut self, octets: &[u8]) -> Result<usize, Failure> {
        let mut rest = octets;
        while let Engine::Hello(acceptor, received) = &mut self.engine {
            if rest.is_empty() {
                return Ok(octets.len());
            }
            if *received == 0 && rest[0] != HANDSHAKE {
                // Who does not speak TLS understands no alert.
                return Err(self.refuse(Vec::new(), Failure::NotTls));
            }
            let allowed = rest.len().min(MAX_HELLO.saturating_sub(*received));
            match acceptor.read_tls(&mut &rest[..allowed]) {
                Ok(count) if count > 0 => {
                    *received += count;
                    rest = &rest[count..];
                }
                _ => {
                    return Err(self.refuse_with(AlertDescription::DecodeError, Failure::Oversized));
                }
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => self.choose(accepted)?,
                Err((why, mut alert)) => {
                    let mut octets = Vec::new();
                    let _ = alert.write_all(&mut octets);
                    return Err(self.refuse(octets, Failure::from(&why)));
                }
            }
        }
        let Engine::Connection(connection) = &mut self.engine else { return Ok(octets.len()) };
        // A hello may bring more with it.
        let mut io = connection.process_new_packets();
        loop {
            self.unread = io.map_err(|why| Failure::from(&why))?.plaintext_bytes_to_read();
            if rest.is_empty() || self.unread >= MAX_UNREAD {
                break;
            }
            match connection.read_tls(&mut rest) {
                // What follows the end does not count.
                Ok(0) => rest = &[],
                Ok(_) => {}
                Err(_) => return Err(Failure::Oversized),
            }
            io = connection.process_new_packets();
        }
        self.settle()?;
        Ok(octets.len() - rest.len())
    }

    /// Answers a hello, or refuses it.
    fn choose(&mut self, accepted: Accepted) -> Result<(), Failure> {
        let Side::Server { server, .. } = &self.side else { unreachable!("only servers accept") };
        let server = Arc::clone(server);
        let asked = accepted.client_hello();
        let sni = asked.server_name().map(str::to_owned);
        if sni.as_deref().is_some_and(|sni| !server.is_for(sni)) {
            return Err(self.refuse_with(AlertDescription::UnrecognisedName, Failure::UnknownName));
        }
        let offers = asked.alpn().filter(|_| server.has_alpn());
        let alpn = offers.map(|mut offers| offers.find(|offer| server.allows(offer)));
        let alpn = match alpn {
            None => None,
            Some(Some(chosen)) => Some(chosen.to_vec()),
            Some(None) => {
                let alert = AlertDescription::NoApplicationProtocol;
                return Err(self.refuse_with(alert, Failure::AlpnRefused));
            }
        };
        match accepted.into_connection(server.config(alpn.as_deref())) {
            Ok(connection) => {
                let mut connection = Connection::Server(connection);
                connection.set_buffer_limit(Some(MAX_UNSENT));
                self.engine = Engine::Connection(Box::new(connection));
                self.side = Side::Server { server, hello: Some(Hello { sni, alpn }) };
                Ok(())
            }
            Err((why, mut alert)) => {
                let mut octets = Vec::new();
                let _ = alert.write_all(&mut octets);
                Err(self.refuse(octets, Failure::from(&why)))
            }
        }
    }

    /// Notes what was agreed on, when the handshake is complete.
    fn settle(&mut self) -> Result<(), Failure> {
        let Engine::Connection(connection) = &mut self.engine else { return Ok(()) };
        if self.terms.is_some() || connection.is_handshaking() {
            return Ok(());
        }
        let spoken = connection.alpn_protocol();
        let (sni, alpn, auth_id) = match &self.side {
            Side::Client { sni, alpn } => {
                // The local client has its protocol already. A server that does not know ALPN speaks
                // HTTP/1.1 if it speaks HTTP at all.
                let is_silent = spoken.is_none() && alpn.as_deref() == Some(WITHOUT_ALPN);
                let is_agreed = is_silent || spoken == alpn.as_deref();
                if !is_agreed {
                    connection.send_close_notify();
                    return Err(Failure::AlpnMismatch);
                }
                (sni.clone(), spoken.map(<[u8]>::to_vec), None)
            }
            Side::Server { server, hello } => {
                let shown = connection.peer_certificates().and_then(<[_]>::first);
                let auth_id = shown.and_then(|shown| server.auth_id(shown)).cloned();
                let Hello { sni, alpn } = hello.clone().unwrap_or_default();
                (sni, alpn, auth_id)
            }
        };
        let is_tls13 = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        self.terms = Some(Terms { sni, alpn, auth_id, is_tls13 });
        Ok(())
    }

    fn refuse_with(&mut self, alert: AlertDescription, failure: Failure) -> Failure {
        // A record of type 21 (alert) with two octets; the first, 2, marks the alert as fatal.
        self.refuse(vec![21, 3, 3, 0, 2, 2, alert.into()], failure)
    }

    fn refuse(&mut self, alert: Vec<u8>, failure: Failure) -> Failure {
        self.engine = Engine::Refused(alert);
        failure
    }
}

/// What was said and agreed on, and nothing of keys.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("hello", &self.hello())
            .field("terms", &self.terms)
            .field("has_failed", &self.has_failed)
            .finish_non_exhaustive()
    }
}

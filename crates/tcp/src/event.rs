//! Events for the driver.

use base::ip::icmp;

/// The states of RFC 9293, 3.3.2; LISTEN is the driver's, which calls `Connection::accept`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// There is no connection any more.
    Closed,
    /// The peer has closed, we have not.
    CloseWait,
    /// Both have closed at once; our FIN is not acknowledged.
    Closing,
    /// Data flows.
    Established,
    /// We have closed; our FIN is not acknowledged.
    FinWait1,
    /// We have closed, the peer has not.
    FinWait2,
    /// Both have closed, the peer first; our FIN is not acknowledged.
    LastAck,
    /// A SYN came, a SYN-ACK went.
    SynReceived,
    /// A SYN went.
    SynSent,
    /// All is done; the ports rest.
    TimeWait,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The connection ended as both ends wished, or `abort` ended it.
    Closed,
    /// Data can flow.
    Connected,
    /// The peer sends no more: what is readable is the rest.
    PeerClosed,
    /// There is more to read.
    Readable,
    /// The peer refused or reset the connection.
    Reset,
    /// The network reported an error that may pass (RFC 1122, 4.2.3.9).
    SoftError(icmp::Error),
    /// We gave up.
    TimedOut(TimedOut),
    /// R1 is reached: the peer does not answer (RFC 1122, 4.2.3.5).
    Unresponsive,
    /// `write` takes octets again, after it had refused some.
    Writable,
}

/// Why we gave up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimedOut {
    /// The peer did not answer our SYN or SYN-ACK (R2 for SYN).
    Connecting,
    /// The peer did not acknowledge data, a FIN or a window probe (R2).
    Data,
    /// The peer did not answer keep-alive probes.
    KeepAlive,
}

/// Events not yet fetched: at most one per kind, so memory stays bounded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events {
    pub(super) connected: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) unresponsive: bool,
    pub(super) soft_error: Option<icmp::Error>,
    pub(super) peer_closed: bool,
    pub(super) end: Option<Event>,
}

impl Events {
    /// The next event, in the order in which events can have happened.
    pub(super) fn pop(&mut self) -> Option<Event> {
        let mut take =
            |flag: fn(&mut Self) -> &mut bool, event| std::mem::take(flag(self)).then_some(event);
        take(|events| &mut events.connected, Event::Connected)
            .or_else(|| take(|events| &mut events.readable, Event::Readable))
            .or_else(|| take(|events| &mut events.writable, Event::Writable))
            .or_else(|| take(|events| &mut events.unresponsive, Event::Unresponsive))
            .or_else(|| take(|events| &mut events.peer_closed, Event::PeerClosed))
            .or_else(|| self.soft_error.take().map(Event::SoftError))
            .or_else(|| self.end.take())
    }
}

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

//! Configuration of the SIS server: limits, flow control, and confirmations.

use std::time::Duration;

/// The backlog of a client above which its flow is off, unless configured: more than the longest transmission of the
/// fastest waveform. Urgent U_PDUs wait at the client while the flow is off, so it had better never be off.
pub(crate) const OFF: Backlog = Backlog { octets: 5 << 20, u_pdus: 8_192 };

/// The parameters of a node's clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The longest U_PDU with ARQ that is taken, in octets: 2,048 by the standard, 4,096 at most. Without
    /// ARQ it is always 4,096.
    pub mtu: u16,
    /// Access points that clients may have: bit n stands for access point n.
    pub saps: u16,
    /// Whether clients may have rank 15, with which they manage the node.
    pub may_manage: bool,
    /// Whether a client takes the access point from one of lower rank.
    pub preempts: bool,
    /// Whether the node only broadcasts: no ARQ, no hard links.
    pub is_broadcast_only: bool,
    /// How long a connection may stay unbound.
    pub bind_wait: Duration,
    /// Nothing heard for this long, a client is asked whether it is there; at least 120 s. `None`
    /// leaves that to TCP.
    pub keep_alive: Option<Duration>,
    /// Whether clients are told of, and may use, management messages of ours.
    pub has_messages: bool,
    /// Bounds of what clients may make the node keep.
    pub limits: Limits,
    /// When the flow of a client is on and off.
    pub flow: FlowControl,
    /// Time to live of U_PDUs whose clients set no limit, and at most; `None` for no limit.
    pub max_ttl: Option<Duration>,
    /// The time of the epoch: since 1970, GMT.
    pub epoch: Duration,
    /// Whether the time to die is sent along when a client sets a time to live.
    pub sends_ttd: bool,
    /// The greatest difference between clocks of nodes: a U_PDU is still delivered this much later.
    pub clock_error: Duration,
    /// How the delivery of U_PDUs is confirmed.
    pub confirm: Confirm,
    /// How long a remote node may take to answer what concerns a hard link.
    pub hard_link_wait: Duration,
    /// How long a client may take to accept a hard link.
    pub hard_link_answer: Duration,
    /// Rank of remote clients that make hard links of types 0 and 1.
    pub remote_rank: u8,
}

/// Bounds of what clients may make the node keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Connections at most, bound or not.
    pub max_clients: usize,
    /// Unreadable or misplaced primitives after which a client is unbound and its connection closed.
    pub max_invalid: u32,
    /// Expedited U_PDUs of a client without an outcome, above which it is unbound.
    pub max_expedited: usize,
    /// U_PDUs of a client that the layers below have, or the remote client has not confirmed; more
    /// wait here.
    pub max_undecided: usize,
    /// Octets to a client that wait for it to read; beyond, it is unbound and its connection closed.
    pub max_unread: usize,
}

/// When the flow of a client is on and off, by what of it waits for the layers below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowControl {
    /// The backlog of a client for the layers below: beyond this the flow is off, ...
    pub off: Backlog,
    /// ... from here down it is on again, ...
    pub on: Backlog,
    /// ... and beyond this, the client being deaf to it, it is unbound and its connection closed.
    pub flood: Backlog,
}

/// How the delivery of U_PDUs is confirmed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Confirm {
    /// Octets of a U_PDU that are copied when its client is told the outcome.
    pub prefix: usize,
    /// Octets of a U_PDU that are copied when a remote node is told so, over the air.
    pub air_prefix: usize,
    /// How long a remote client may take to confirm what its node has.
    pub wait: Duration,
    /// Whether all nodes confirm with numbers (EP9); otherwise those that say so.
    pub compact: bool,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// Octets of U_PDUs.
    pub octets: usize,
    /// U_PDUs.
    pub u_pdus: usize,
}

impl Backlog {
    /// Half as much of both.
    pub(crate) const fn half(self) -> Self {
        Self { octets: self.octets / 2, u_pdus: self.u_pdus / 2 }
    }

    /// Whether one of the two is beyond `bound`.
    #[must_use]
    pub fn exceeds(self, bound: Self) -> bool {
        self.octets > bound.octets || self.u_pdus > bound.u_pdus
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 2_048,
            saps: u16::MAX,
            may_manage: true,
            preempts: true,
            is_broadcast_only: false,
            bind_wait: Duration::from_secs(60),
            keep_alive: None,
            has_messages: true,
            limits: Limits::default(),
            flow: FlowControl::default(),
            max_ttl: None,
            epoch: Duration::ZERO,
            sends_ttd: true,
            clock_error: Duration::from_secs(10),
            confirm: Confirm::default(),
            hard_link_wait: Duration::from_secs(120),
            hard_link_answer: Duration::from_secs(30),
            remote_rank: 0,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_clients: 64,
            max_invalid: 10,
            max_expedited: 16,
            max_undecided: 8_192,
            max_unread: 1 << 20,
        }
    }
}

impl Default for FlowControl {
    fn default() -> Self {
        Self {
            off: OFF,
            on: Backlog { octets: 4_864 << 10, u_pdus: 7_680 },
            flood: Backlog { octets: 12 << 20, u_pdus: 24_576 },
        }
    }
}

impl Default for Confirm {
    fn default() -> Self {
        Self { prefix: 64, air_prefix: 32, wait: Duration::from_secs(300), compact: false }
    }
}

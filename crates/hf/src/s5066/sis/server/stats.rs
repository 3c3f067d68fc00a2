//! Counters of the SIS server: connections, clients, and U_PDUs.

use serde::Serialize;

/// Counters of a node's clients since it started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Connections, bound or not.
    #[serde(flatten)]
    pub connections: Connections,
    /// Actions of bound clients.
    #[serde(flatten)]
    pub clients: Clients,
    /// U_PDUs of clients.
    #[serde(flatten)]
    pub submitted: Submitted,
    /// U_PDUs for clients.
    #[serde(flatten)]
    pub delivered: Delivered,
}

/// Connections of clients, bound or not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Connections {
    /// Connections taken.
    #[serde(rename = "connections")]
    pub taken: u64,
    /// Connections refused: the limit was reached, and all clients were bound.
    #[serde(rename = "connections_refused")]
    pub refused: u64,
    /// Connections closed: not bound in time, or before another one needed their place.
    pub closed_unbound: u64,
    /// Connections closed: what came could not be read, or too much of it.
    pub closed_invalid: u64,
    /// Connections closed: the client went on sending with its flow off.
    pub closed_flood: u64,
    /// Connections closed: the client does not read.
    pub closed_unread: u64,
}

/// Actions of bound clients.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Clients {
    /// Clients bound.
    pub binds: u64,
    /// Binds refused.
    pub binds_refused: u64,
    /// Clients unbound for a client of higher rank.
    pub preempted: u64,
    /// Clients unbound: they did not answer.
    pub inactive: u64,
    /// Clients unbound: too many expedited U_PDUs.
    pub expedited_floods: u64,
    /// Primitives that could not be read or were not for a client to send.
    #[serde(rename = "primitives_invalid")]
    pub invalid: u64,
    /// Requests refused: their connection was not bound.
    pub unbound_requests: u64,
    /// Times that a client's flow went off.
    pub flow_off: u64,
    /// Management messages refused: not from rank 15, or too many waited.
    pub management_refused: u64,
    /// Hard links made, here or there.
    pub hard_links: u64,
}

/// U_PDUs that clients sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Submitted {
    /// U_PDUs taken from clients.
    pub u_pdus_taken: u64,
    /// Octets of them.
    pub octets_taken: u64,
    /// U_PDUs refused: larger than the MTU.
    pub too_large: u64,
    /// U_PDUs refused: the delivery mode does not exist.
    pub no_mode: u64,
    /// U_PDUs handed to the layers below.
    pub u_pdus_sent: u64,
    /// U_PDUs dropped: their time to live ended before they were handed down.
    #[serde(rename = "u_pdus_expired")]
    pub expired: u64,
    /// U_PDUs confirmed to clients.
    #[serde(rename = "u_pdus_confirmed")]
    pub confirmed: u64,
    /// U_PDUs confirmed by another node, which later reported that no client there took the U_PDU.
    pub unreceived: u64,
    /// U_PDUs that clients took back before anything of them was sent.
    pub taken_back: u64,
    /// U_PDUs that failed after they were handed down.
    #[serde(rename = "u_pdus_failed")]
    pub failed: u64,
    /// U_PDUs that no remote client confirmed in time.
    pub unconfirmed: u64,
    /// U_PDUs dropped: their client was unbound.
    pub dropped_unbound: u64,
    /// Confirmations received for no waiting U_PDU.
    pub stray_confirms: u64,
}

/// U_PDUs that came for clients.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Delivered {
    /// U_PDUs delivered to clients.
    pub u_pdus_delivered: u64,
    /// Octets of them.
    pub octets_delivered: u64,
    /// U_PDUs received for an access point that is not bound.
    pub not_bound: u64,
    /// U_PDUs received after their time to die.
    pub received_late: u64,
    /// U_PDUs received with errors that their client does not take.
    pub received_damaged: u64,
    /// S_PDUs received that could not be read.
    pub malformed: u64,
    /// Answers to remote nodes that were not sent: too many waited.
    pub answers_dropped: u64,
}

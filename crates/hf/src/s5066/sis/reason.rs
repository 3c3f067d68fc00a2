//! Why something was refused, ended or failed, as the primitives say it.
//!
//! A number that the standard does not assign is kept as it came: other editions may assign it.

use std::fmt;

/// A number with names for those that the standard assigns.
macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $constant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$doc])* pub const $constant: Self = Self($value);)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$constant => f.write_str($text),)*
                    Self(other) => write!(f, "reason {other}"),
                }
            }
        }
    };
}

reasons! {
    /// Why a client was not bound (S_BIND_REJECTED).
    BindReason {
        /// There is no room for it, or not on this connection, or not with this service type.
        NO_RESOURCES = 1, "not enough resources";
        /// Clients may not have this access point.
        BAD_SAP = 2, "invalid access point";
        /// Another client with at least this rank has the access point.
        SAP_IN_USE = 3, "access point already in use";
        /// The node only broadcasts.
        NO_ARQ = 4, "no ARQ while the node broadcasts";
    }
}

reasons! {
    /// Why a client was unbound (S_UNBIND_INDICATION).
    UnbindReason {
        /// A client of higher rank took its place.
        PREEMPTED = 1, "pre-empted by a client of higher rank";
        /// It did not answer, or does not read.
        INACTIVE = 2, "inactivity";
        /// What it sends cannot be read, or is not for it to send.
        BAD_PRIMITIVES = 3, "too many invalid primitives";
        /// It floods the expedited service.
        TOO_MANY_EXPEDITED = 4, "too many expedited requests";
        /// The node went over to broadcasting.
        NO_ARQ = 5, "no ARQ while the node broadcasts";
    }
}

reasons! {
    /// Why a U_PDU was not delivered (S_UNIDATA_REQUEST_REJECTED), four bits.
    UnidataReason {
        /// Its time to live ended.
        EXPIRED = 1, "time to live expired";
        /// No client is bound there.
        SAP_NOT_BOUND = 2, "destination access point not bound";
        /// The node does not answer.
        NO_RESPONSE = 3, "destination node not responding";
        /// It is longer than the MTU.
        TOO_LARGE = 4, "larger than the MTU";
        /// The delivery mode cannot be had.
        NO_MODE = 5, "transmission mode not specified";
        /// The client has taken it back before anything of it was sent (ours).
        TAKEN_BACK = 14, "taken back";
        /// It was sent, and nobody knows whether it arrived (ours).
        MAY_HAVE_ARRIVED = 15, "it may have arrived, nobody knows";
    }
}

reasons! {
    /// Why there is no hard link (S_HARD_LINK_REJECTED, and its S_PDU in four bits).
    LinkReason {
        /// The remote node has another.
        BUSY = 1, "remote node busy";
        /// Another link goes first.
        HIGHER_PRIORITY = 2, "a link of higher priority exists";
        /// The remote node or client does not answer.
        NO_RESPONSE = 3, "remote node not responding";
        /// No client is bound there.
        SAP_NOT_BOUND = 4, "destination access point not bound";
        /// A link of type 0 is there already, and may be used.
        TYPE_0_EXISTS = 5, "the requested link of type 0 exists";
    }
}

reasons! {
    /// Why a hard link ended (S_HARD_LINK_TERMINATED, and its S_PDU in four bits).
    TerminateReason {
        /// The other end wanted it.
        BY_REMOTE = 1, "terminated by the remote node";
        /// Another link goes first.
        HIGHER_PRIORITY = 2, "a link of higher priority was requested";
        /// The remote node does not answer.
        NO_RESPONSE = 3, "remote node not responding";
        /// The client at the other end is gone.
        SAP_UNBOUND = 4, "destination access point unbound";
        /// The physical link broke.
        LINK_BROKEN = 5, "physical link broken";
    }
}

reasons! {
    /// What a node can do (S_SUBNET_AVAILABILITY); of a remote node any but 0 is good.
    NodeStatus {
        /// Nothing; of a remote node: an error.
        OFF = 0, "off";
        /// Everything the node is made for.
        ON = 1, "on";
        /// It only receives.
        RECEIVE_ONLY = 2, "receive only";
        /// It sends and receives by turns.
        HALF_DUPLEX = 3, "half duplex";
        /// It sends and receives at once.
        FULL_DUPLEX = 4, "full duplex";
        /// It only sends.
        TRANSMIT_ONLY = 5, "transmit only";
    }
}

reasons! {
    /// Why a node's status is what it is (S_SUBNET_AVAILABILITY).
    UnavailableReason {
        /// Not told.
        UNSPECIFIED = 0, "unspecified";
        /// Emissions are under control here.
        LOCAL_EMCON = 1, "local emission control";
        /// A link of higher priority takes the place.
        HIGHER_PRIORITY = 2, "a link of higher priority";
    }
}

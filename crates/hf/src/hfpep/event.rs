//! Events that an HF-PEP reports to its driver.

use super::flows::FlowId;
use super::pep::SessionId;
use super::wire::Opening;
use crate::s5066::Address;
use crate::s5066::seal::Trouble;
use crate::s5066::sis::client::Fault;
use crate::s5066::sis::{BindReason, UnbindReason};
use crate::slep::Break;

/// Events for the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The far end has the connection that
    /// [`HfPep::open_confirmed`](super::HfPep::open_confirmed) asked for: octets may follow.
    Accepted(SessionId),
    /// The node takes what is to be sent.
    Bound,
    /// The connection to the node is to be closed, and made again.
    Close(Fault),
    /// Another end asks for a connection: [`HfPep::accept`](super::HfPep::accept) says that it is
    /// there, [`HfPep::reset`](super::HfPep::reset) why not.
    Connect {
        /// The connection.
        session: SessionId,
        /// The other end.
        from: Address,
        /// To whom.
        opening: Opening,
    },
    /// Both ends have finished, and each has all of the other: it is no more.
    Finished(SessionId),
    /// A flow of UDP that another end had opened is no more.
    FlowEnded(FlowId),
    /// There is something to read, or the end.
    Readable(SessionId),
    /// The node does not bind the client, which will ask again.
    Refused(BindReason),
    /// A connection is broken and no longer exists. As on a stream, everything that came before was read.
    Reset(SessionId, Break),
    /// A node has sent a PDU of another version of SLEP, which is dropped.
    OtherVersion {
        /// Which node.
        node: Address,
        /// Its version, 0 to 3.
        version: u8,
    },
    /// The U_PDUs of a node are dropped because of their seal, or the node drops ours.
    Sealing {
        /// Which node.
        node: Address,
        /// The fault.
        trouble: Trouble,
    },
    /// The node has unbound the client, which will ask again.
    Unbound(UnbindReason),
    /// There is room again after less was taken than was given.
    Writable(SessionId),
}

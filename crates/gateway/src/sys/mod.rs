//! Makes system calls without a safe wrapper; the only unsafe code of the gateway.
//!
//! ```text
//!   acl     who may use a file besides its owner
//!   Gre     a raw socket for packets in GRE
//!   heap    memory that was freed
//!   Link    a packet socket for HBH between neighbours: many frames a system call
//!   passing descriptors from one process to another
//!   Port    a packet socket that takes and puts whole frames: the link emulator's ends
//!   Protocol a raw socket for whole packets of one IP protocol
//!   Raw     sockets for whole IP packets: back into the kernel's routing
//!   seccomp a filter of system calls
//!   Tap     a virtual network card with segmentation offload: traffic enters and leaves here
//!   tcp     what TCP sockets have waiting, and may have
//!   Udp     a socket between gateways: trains of datagrams, ECN
//! ```
#![expect(unsafe_code, reason = "ioctl, socket options and messages with buffers of the caller")]

pub mod acl;
mod gre;
pub mod heap;
mod link;
pub mod passing;
pub mod port;
mod protocol;
mod raw;
pub mod seccomp;
mod tap;
pub mod tcp;
mod udp;

pub use gre::Gre;
pub use link::{FrameBatch, Link, Received};
pub use protocol::Protocol;
pub use raw::Raw;
pub use tap::Tap;
pub use udp::{Arrivals, Arrived, Head, Outbox, Udp};

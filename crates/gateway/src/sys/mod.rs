//! The system calls that no safe wrapper reaches; the only unsafe code of the gateway.
//!
//! ```text
//!   Port    a packet socket that takes and puts whole frames: the link emulator's ends
//! ```
#![expect(unsafe_code, reason = "socket options and recvmsg with buffers that the caller owns")]

pub mod port;

//! Ends TLS on either side of a TCP relay: octets in, octets out, without sockets.
//!
//! ```text
//!             octets of TCP                    plain octets
//!   local   ──── receive ───▶ ┌─────────┐ ──── read ────▶
//!   client                    │ Session │                  stream to the far gateway
//!           ◀─── transmit ─── └─────────┘ ◀─── write ────
//!                    Session::accept: we are the server; SNI, ALPN and Auth ID become known
//!
//!   stream from the far gateway ◀──▶ Session ◀──▶ real server
//!                    Client::connect: by SNI or address; Target::connect: by Auth ID
//! ```
//! A [`Profile`] names the files and names of a side; [`Profiles`] holds all loaded profiles.
//! Every failure is a [`Failure`], counted in [`Stats`]. docs/guide/tls.md is the book about it.

pub mod authority;
pub mod check;
mod client;
mod failure;
pub mod files;
pub mod names;
mod profile;
mod profiles;
mod server;
mod session;
mod stats;
#[cfg(test)]
mod tests;
mod verifier;

pub use client::{Client, Target};
pub use failure::{Failure, HANDSHAKE};
pub use profile::{
    ClientProfile, CredentialFiles, Destination, Profile, Role, ServerProfile, TargetProfile,
    TwoWay, Version,
};
pub use profiles::Profiles;
pub use server::Server;
pub use session::{Hello, Plain, Session, Terms};
pub use stats::{CertificateFailures, HandshakeFailures, Stats};

//! Sessions against the library's own clients and servers, in memory.

mod bounds;
mod ends;
mod files;
mod handshakes;
mod refusals;
mod rig;
mod secrets;

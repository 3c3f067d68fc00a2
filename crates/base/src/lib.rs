//! Common parts of all protocol cores: time, chance, quantities, headers, parameters, and the [`contract`] that each
//! core keeps.
//!
//! ```text
//!   time, rng, quantity   what is counted and drawn    contract          how a driver calls a core
//!   readable              numbers for people
//!   entropy, keys         secrets, and how they read   parameter, name   what can be set of a core
//!   ip, tcp, ethernet     headers of packets           budget, backoff   how often something may be done
//!   counter               what a core counts, and how drivers show it
//!   serial, replay, crc   numbers and sums of PDUs     dns, gre          names, and tunnels of routers
//! ```
//!
//! A core is a plain state machine: it reads no clock, opens no socket and spawns nothing.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod backoff;
pub mod budget;
pub mod contract;
pub mod counter;
pub mod crc;
pub mod dns;
pub mod entropy;
pub mod ethernet;
pub mod gre;
pub mod ip;
pub mod keys;
pub mod name;
pub mod parameter;
pub mod quantity;
pub mod readable;
pub mod replay;
pub mod rng;
pub mod serial;
pub mod tcp;
pub mod time;

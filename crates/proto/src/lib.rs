//! Protocol cores: plain state machines that read no clock, open no socket and spawn nothing.
//!
//! Every core keeps the [`contract`] with the driver that runs it: the simulator in virtual time, or
//! the gateway in real time.

pub mod backoff;
pub mod budget;
pub mod contract;
pub mod crc;
pub mod dns;
pub mod ethernet;
pub mod gre;
pub mod hbh;
pub mod hfpep;
pub mod ip;
pub mod ipclient;
pub mod modem;
pub mod nc;
pub mod parameter;
pub mod quantity;
pub mod replay;
pub mod rng;
pub mod routing;
pub mod rules;
pub mod s5066;
pub mod sar;
pub mod secure;
pub mod serial;
pub mod slep;
pub mod tcp;
pub mod tcpnc;
pub mod time;

//! Protocol cores: plain state machines that read no clock, open no socket and spawn nothing.
//!
//! Every core has the same shape; `now` always comes first:
//!
//! ```text
//! handle_*(now, input)          something arrived
//! poll_transmit(now, out)       the next thing to send, asked only while the bearer has room
//! poll_event()                  what the driver should know
//! next_timeout()                when to call handle_timeout at the latest
//! handle_timeout(now)
//! ```
//!
//! Two drivers run them: the simulator in virtual time, the gateway in real time.

pub mod ethernet;
pub mod hbh;
pub mod ip;
pub mod ipclient;
pub mod modem;
pub mod nc;
pub mod parameter;
pub mod quantity;
pub mod replay;
pub mod rng;
pub mod s5066;
pub mod secure;
pub mod tcp;
pub mod tcpnc;
pub mod time;

//! Reliable messages over UDP between gateways, for programs.

mod bed;
mod carry;
mod crash;
mod hostile;
mod programs;
mod send;
mod store;
mod timed;

//! Nodes of the protocol that talk with each other.

mod bench;
mod broadcast;
mod cancel;
mod conformance;
mod contract;
mod flow;
mod hostile;
mod property;
mod transfers;
mod wire;

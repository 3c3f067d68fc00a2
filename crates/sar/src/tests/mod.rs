//! Nodes of the protocol that talk with each other.

mod bench;
mod broadcast;
mod cancel;
mod conformance;
mod contract;
mod flood;
mod flow;
mod hostile;
mod lasting;
mod property;
mod transfers;
mod wire;

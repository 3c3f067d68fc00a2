pub(crate) mod bench;
pub(crate) mod contract;
mod datagrams;
pub(crate) mod group;
mod property;
mod streams;
mod wire;

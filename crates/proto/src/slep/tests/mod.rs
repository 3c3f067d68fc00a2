pub(crate) mod bench;
pub(crate) mod contract;
mod datagrams;
mod property;
mod streams;
mod wire;

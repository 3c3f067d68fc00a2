//! The parts of the Linux kernel that services use themselves: devices, sockets, diversions and rights.

pub(crate) mod account;
pub(crate) mod belongings;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod divert;
pub(crate) mod entrances;
pub mod firewall;
pub(crate) mod holder;
pub(crate) mod led;
pub mod manet;
pub mod offload;
pub(crate) mod rights;
pub(crate) mod seccomp;
pub(crate) mod tcp;
pub(crate) mod udp;

pub use host::routes;

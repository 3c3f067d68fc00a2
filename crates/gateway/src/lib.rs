//! The gateway: real traffic on Linux.
pub mod offload;
pub mod sys;

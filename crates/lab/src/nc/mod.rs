//! The claims about the coded tunnel (Ha et al., "Masking Lossy Networks by TCP Tunnel with Network
//! Coding").
//!
//! All run on the same [`network`].

pub mod measure;
pub mod network;

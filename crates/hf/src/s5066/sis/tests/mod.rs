//! Vectors of the wire, and behaviour as traces.

mod bench;
mod binding;
mod bounds;
mod captures;
mod confirm;
mod links;
mod order;
mod questions;
mod wire;

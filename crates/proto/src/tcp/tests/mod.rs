//! Scenarios and properties over the public API.

mod pair;
mod transfer;

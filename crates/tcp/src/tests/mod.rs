//! Scenarios and properties over the public API.

mod adaptive_pacing;
mod bbr;
mod courses;
mod cubic;
mod hostile;
mod pair;
mod recovery;
mod script;
mod states;
mod timeouts;
mod transfer;
mod vegas;
mod windows;

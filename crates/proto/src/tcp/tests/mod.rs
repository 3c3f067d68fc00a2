//! Scenarios and properties over the public API.

mod cubic;
mod hostile;
mod pair;
mod recovery;
mod script;
mod states;
mod timeouts;
mod transfer;
mod windows;
mod wire;

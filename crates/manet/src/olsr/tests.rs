//! Networks of nodes, and what they come to.

mod bench;
mod contract;
mod convergence;
mod hostile;
mod olsrd;
mod options;
mod relays;

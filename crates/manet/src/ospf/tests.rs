//! Networks of routers, and what they come to.

mod adjacency;
mod bench;
mod contract;
mod convergence;
mod hostile;
mod lsas;
mod ways;

//! Tests HBH below routing daemons and beside plain nodes: as fast as without HBH, and nothing is lost.
//!
//! Comparing tests run the same traffic without gateways and with gateways, and print both figures on failure. A test
//! without its routing daemon reports that it is skipped.

mod adjacency;
mod changes;
mod daemons;
mod datagrams;
mod errors;
mod network;
mod timed;

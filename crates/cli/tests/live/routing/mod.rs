//! HBH below routing daemons and beside nodes without it: no slower, and nothing lost, than without.
//!
//! Tests that compare run the same thing without gateways and with them, and say both figures when
//! they fail. Those that need a daemon which is not installed say that they are skipped.

mod adjacency;
mod changes;
mod daemons;
mod datagrams;
mod errors;
mod network;
mod timed;

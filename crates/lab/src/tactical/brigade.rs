//! An area of a brigade: 20 routers on EPLRS needlines, with OSPF, BGP and messages.

use std::path::Path;

use crate::scenario::Plan;

/// The brigade of the examples, which all experiments begin with.
pub(super) fn example() -> Plan {
    let text = include_str!("../../../../examples/tactical-brigade.toml");
    Plan::parse(Path::new("tactical-brigade.toml"), text.to_owned()).expect("a test reads it")
}

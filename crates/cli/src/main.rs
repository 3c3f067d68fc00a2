//! The `trackway` command.
fn main() {}

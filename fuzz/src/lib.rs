//! What every input must survive. A target feeds one of these from libFuzzer; `tests/replay.rs`
//! feeds all of them from the corpora, on the stable toolchain.

mod hbh;
mod ip;

/// A target's name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] =
    &[("hbh_message", hbh::message), ("hbh_node", hbh::node), ("ip_packet", ip::packet)];

/// Runs the target called `name`.
///
/// # Panics
/// When there is none, or when it finds a fault.
pub fn run(name: &str, input: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    body(input);
}

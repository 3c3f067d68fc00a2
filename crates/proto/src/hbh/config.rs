//! What can be set.

/// Which HBH.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Profile {
    /// Ours.
    #[default]
    Default,
    /// What the paper says, no more (Marques et al., "Transparent IP Proxy for Tactical Ad hoc
    /// Networks").
    Seed,
}

/// The parameters of a node's HBH.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which of the two protocols runs; both ends of a hop run the same.
    pub profile: Profile,
    /// The IP protocol number of HBH packets, 253 unless changed.
    pub protocol: u8,
}

impl Config {
    /// The parameters of `profile`.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, protocol: crate::ip::protocol::EXPERIMENT }
    }
}

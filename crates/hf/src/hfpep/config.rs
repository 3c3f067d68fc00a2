//! What can be set.

use std::time::Duration;

use super::flows;
use super::wire::MAGIC;
use crate::slep::{self, Options};

/// The parameters of an HF-PEP.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Of the streams below.
    pub slep: slep::Config,
    /// The first octet of each stream.
    pub magic: u8,
    /// How long a connection may be silent before its stream is opened without data. Opening and
    /// data go in one transmission, which saves a turn there and back.
    pub first_data: Duration,
    /// How the octets of connections that others have opened are carried back.
    pub answers: Options,
    /// Whether what others say in connections that they have opened is theirs to forget only when the user
    /// says that it was delivered, to the end: [`HfPep::confirm_end`](super::HfPep::confirm_end).
    pub confirms_ends: bool,
    /// Of flows of UDP.
    pub flows: flows::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slep: slep::Config::default(),
            magic: MAGIC,
            first_data: Duration::from_millis(150),
            answers: Options::default(),
            confirms_ends: false,
            flows: flows::Config::default(),
        }
    }
}

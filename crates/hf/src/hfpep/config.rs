//! Configuration of an HF-PEP, for its driver.

use std::time::Duration;

use super::flows;
use super::wire::MAGIC;
use crate::slep::{self, Options};

/// The parameters of an HF-PEP.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The configuration of the streams below.
    pub slep: slep::Config,
    /// The first octet of each stream.
    pub magic: u8,
    /// How long a connection may be silent before its stream is opened without data. Opening and
    /// data go in one transmission, which saves a turn there and back.
    pub first_data: Duration,
    /// How the octets of connections that others have opened are carried back.
    pub answers: Options,
    /// Whether other ends, in connections opened by them, may forget their data only when the user confirms delivery,
    /// to the end: [`HfPep::confirm_end`](super::HfPep::confirm_end).
    pub confirms_ends: bool,
    /// The configuration of UDP flows.
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

//! Chooses the gateway to ask.

use std::path::{Path, PathBuf};

/// The gateway that is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct Control {
    /// The gateway's control socket, if it was started with one elsewhere.
    #[arg(long = "control", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl Control {
    /// The path of the gateway's socket, if not the usual one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

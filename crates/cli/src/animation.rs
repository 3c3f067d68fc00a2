//! The option `--animate`: an animated picture of a command's run.

use std::path::{Path, PathBuf};

use ::lab::animation::{self, Recording};
use anyhow::Context as _;
use whole::write_whole;

/// The animation to write, if any.
#[derive(Clone, Debug, clap::Args)]
pub struct Animate {
    /// Write a picture that moves to FILE: a page that needs nothing else where it ends in
    /// .html, a few seconds in a loop where it ends in .svg.
    #[arg(long, value_name = "FILE", value_parser = Picture::parse)]
    animate: Option<Picture>,

    /// The octets that the page of --animate may have; where that is too few, it shows fewer of the
    /// packets and says so.
    #[arg(long, value_name = "OCTETS", default_value_t = animation::USUAL_OCTETS)]
    animate_octets: usize,
}

impl Animate {
    pub fn is_wanted(&self) -> bool {
        self.animate.is_some()
    }

    /// Writes the picture, if one is wanted.
    pub fn write(&self, recording: Recording) -> anyhow::Result<()> {
        let Some(picture) = &self.animate else { return Ok(()) };
        picture.write(recording, self.animate_octets)
    }
}

/// The path and the format of an animated picture.
#[derive(Clone, Debug)]
struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    fn parse(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        let is_page = match extension.as_ref().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => true,
            Some("svg") => false,
            _ => return Err("a picture ends in .html or .svg".to_owned()),
        };
        Ok(Self { path, is_page })
    }

    fn write(&self, recording: Recording, octets: usize) -> anyhow::Result<()> {
        let picture = if self.is_page {
            animation::to_html(recording, octets)
        } else {
            animation::to_looping_svg(&recording)
        };
        let failed = || format!("cannot write {}", self.path.display());
        write_whole(&self.path, picture).with_context(failed)
    }
}

/// The title of a scenario's picture.
pub fn title(scenario: &Path, seed: u64) -> String {
    let name = scenario.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
    format!("{name}, seed {seed}")
}

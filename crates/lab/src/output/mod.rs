//! Writes the results of a campaign: numbers for programs, pictures and a report for people.
//!
//! ```text
//! OUT/
//!   runs.tsv                every run: the same command does not do it again
//!   report.html             everything, complete in itself
//!   hbh-delay.csv           the means of one experiment
//!   hbh-delay.svg, .png     its figures
//!   hf-s5066-….svg, .png    who transmitted when in one run
//!   hf-s5066-….pcapng       and all frames of that
//! ```

mod csv;
mod html;
mod json;
mod text;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use whole::write_whole;

use crate::campaign::Tested;
use crate::figure::timeline::timeline_to_svg;
use crate::{figure, hf};

pub use csv::to_csv;
pub use html::to_html;
pub use json::to_json_lines;
pub use text::to_text;

/// Makes the folder `out` if it is missing. Done before long runs, so that none is in vain.
///
/// # Errors
/// When it cannot be made.
pub fn make_folder(out: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))
}

/// Writes the tables, the report and then the figures into the folder `out`, which is made if missing. Numbers come
/// before pictures of them, and each file is whole or as it was before.
///
/// # Errors
/// When a file cannot be written.
pub fn write_all(out: &Path, tested: &[Tested], provenance: &str) -> anyhow::Result<()> {
    make_folder(out)?;
    let write = |name: &str, contents: &[u8]| {
        let path = out.join(name);
        write_whole(&path, contents).with_context(|| format!("cannot write {}", path.display()))
    };

    for Tested { claim, finding } in tested {
        write(&format!("{}.csv", claim.id), to_csv(claim, finding).as_bytes())?;
    }
    write("report.html", to_html(tested, provenance).as_bytes())?;
    for Tested { finding, .. } in tested {
        for drawing in &finding.figures {
            let svg = figure::to_svg(drawing);
            write(&format!("{}.svg", drawing.name), svg.as_bytes())?;
            write(&format!("{}.png", drawing.name), &figure::to_png(&svg)?)?;
        }
        for exchange in &finding.exchanges {
            let svg = timeline_to_svg(&exchange.timeline());
            write(&format!("{}.svg", exchange.name), svg.as_bytes())?;
            write(&format!("{}.png", exchange.name), &figure::to_png(&svg)?)?;
            let path = out.join(format!("{}.pcapng", exchange.name));
            hf::capture(&path, &exchange.stations).context("cannot write a capture")?;
        }
    }
    Ok(())
}

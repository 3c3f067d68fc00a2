//! Prints the last lines of the gateway's log.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{seconds, text};

/// Prints lines, the oldest first, each with its age.
pub fn print<'a>(
    out: &mut impl Write,
    events: impl Iterator<Item = &'a Value>,
) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for event in events {
        let age = now.saturating_sub(event["at_s"].as_u64().unwrap_or_default());
        let age = format!("{} ago", seconds(&age.into()));
        writeln!(out, "{age:>15}  {:<5} {}", text(&event["level"]), text(&event["what"]))?;
    }
    Ok(())
}

//! Removes what a crashed gateway has left in this network namespace.

use super::{claims, fence, settings};

/// Removes routes, rules and tables of nftables, restores settings, and returns a line for each change.
///
/// # Errors
/// When a gateway runs, the kernel does not say what there is, or the right to change it is missing.
pub fn remove_left() -> anyhow::Result<Vec<String>> {
    let given = settings::give_back()?;
    let mut removed = claims::remove_all()?;
    removed.extend(fence::remove_all()?);
    let given = given.into_iter().map(|setting| format!("set back: {setting}"));
    let removed = removed.into_iter().map(|entry| format!("removed: {entry}"));
    Ok(given.chain(removed).collect())
}

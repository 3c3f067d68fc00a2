//! Removes what a crashed gateway has left in this network namespace.

use anyhow::Context as _;

use crate::numbers::Numbers;
use crate::{fence, fib, reconcile, settings, timewait};

/// Removes routes, rules and tables of nftables, restores settings, and returns a line for each change.
///
/// # Errors
/// When a gateway runs, the kernel cannot be asked, or the right to change entries is missing.
pub fn remove_left() -> anyhow::Result<Vec<String>> {
    let lost = lost_settings()?;
    let given = settings::give_back()?;
    let mut removed = reconcile::remove_all()?;
    removed.extend(fence::remove_all()?);
    removed.extend(fib::remove_all().context("cannot ask the kernel")?);
    timewait::forget();
    Numbers::forget();
    let given = given.into_iter().map(|setting| format!("set back: {setting}"));
    let removed = removed.into_iter().map(|entry| format!("removed: {entry}"));
    Ok(given.chain(removed).chain(lost).collect())
}

/// A line for each setting that a crashed gateway without notes may have left changed, with its likely value before.
/// Without other traces of a gateway in the kernel, no gateway has crashed here.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn lost_settings() -> anyhow::Result<Vec<String>> {
    let is_known = settings::has_notes() || !reconcile::has_left()?;
    Ok(if is_known { Vec::new() } else { settings::doubtful() })
}

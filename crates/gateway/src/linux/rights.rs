//! What the gateway may do once it is set up.

use anyhow::Context as _;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;

/// For the settings of devices.
pub(crate) const ADMIN: [Capability; 1] = [Capability::CAP_NET_ADMIN];
/// For the firewall's table and the settings of devices; for sockets that see packets.
pub(crate) const ADMIN_AND_PACKETS: [Capability; 2] =
    [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];

/// Gives up all capabilities but those that are `needed`, for this process and those it starts.
///
/// Those that are needed may be missing: what they are needed for will say so.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn give_up(needed: &[Capability]) -> anyhow::Result<()> {
    // Without this, a program that root starts has all capabilities again.
    prctl::set_no_new_privs().context("cannot give up rights")?;
    let held = caps::read(None, CapSet::Permitted).context("cannot read our rights")?;
    let kept: CapsHashSet = needed.iter().copied().filter(|needed| held.contains(needed)).collect();
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).context("cannot give up rights")?;
    }
    Ok(())
}

//! Limits the rights of the gateway and its threads: user, capabilities and descriptors.

use anyhow::Context as _;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{setgroups, setresgid, setresuid};

use crate::config::Config;
use crate::config::traffic::Listening;
use crate::linux::account::Account;

/// Ports below this are for those with `CAP_NET_BIND_SERVICE`.
const FIRST_FREE_PORT: u16 = 1_024;

/// The capability needed by the program `nft`, which the gateway starts.
const FIREWALL: Capability = Capability::CAP_NET_ADMIN;

/// The capabilities needed to start any service again: for devices, their settings and the firewall's table; for
/// sockets that see packets; and, only if such a port is named, for a port below 1024. That may be a port to which S/R
/// carries datagrams: their answers leave from it.
pub(crate) fn needed(config: &Config) -> Vec<Capability> {
    let mut needed = vec![Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
    // The protocols' own ports are below it.
    let has_routing = config.routing.is_some();
    let is_low = |it: &Listening| it.at.port() < FIRST_FREE_PORT;
    if has_routing || carries_low_port(config) || config.listening().iter().any(is_low) {
        needed.push(Capability::CAP_NET_BIND_SERVICE);
    }
    needed
}

/// Whether S/R carries datagrams to a port below 1024.
pub(crate) fn carries_low_port(config: &Config) -> bool {
    let carry = config.sar.as_ref().and_then(|sar| sar.carry.as_ref());
    carry.is_some_and(|it| it.ports.iter().any(|port| *port < FIRST_FREE_PORT))
}

/// Whether a configuration asks for the first port below 1024 after another that has none: the right to open it was
/// given up at the start.
pub(crate) fn needs_low_port(before: &Config, after: &Config) -> bool {
    let has = |config| needed(config).contains(&Capability::CAP_NET_BIND_SERVICE);
    has(after) && !has(before)
}

/// Raises the soft limit of descriptors to the hard limit: each connection needs one, and the soft limit is often 1024.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn take_descriptors() -> anyhow::Result<()> {
    let (_, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of descriptors")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of descriptors")
}

/// Becomes another user, if one is named, with only the `needed` capabilities, for all threads and programs
/// started from now on. To be called before any thread starts.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn settle(account: Option<&Account>, needed: &[Capability]) -> anyhow::Result<()> {
    let may_bound = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP);
    if may_bound.unwrap_or(false) {
        let needed: CapsHashSet = needed.iter().copied().collect();
        // Fails for capabilities unknown to the kernel.
        caps::all()
            .difference(&needed)
            .for_each(|it| drop(caps::drop(None, CapSet::Bounding, *it)));
    }
    if let Some(account) = account {
        let refused = || {
            format!(
                "cannot become {account}: `user = \"root\"` in the configuration does without, at \
                 the price of root's files"
            )
        };
        prctl::set_keepcaps(true).with_context(refused)?;
        setgroups(&[]).with_context(refused)?;
        setresgid(account.gid, account.gid, account.gid).with_context(refused)?;
        setresuid(account.uid, account.uid, account.uid).with_context(refused)?;
    }
    give_up(needed)?;
    // Our memory holds keys: other processes of this user must not see it, and no core file may keep it.
    prctl::set_dumpable(false).context("cannot keep our memory to ourselves")?;
    // `nft` is another program, and has only inherited capabilities.
    let inherited: CapsHashSet = needed.iter().copied().filter(|it| FIREWALL == *it).collect();
    let held = caps::read(None, CapSet::Permitted).context("cannot read our rights")?;
    let inherited = inherited.intersection(&held).copied().collect();
    for set in [CapSet::Inheritable, CapSet::Ambient] {
        caps::set(None, set, &inherited).context("cannot leave `nft` its rights")?;
    }
    Ok(())
}

/// Becomes a user that may read all files, and has no other right.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn read_only(account: &Account) -> anyhow::Result<()> {
    settle(Some(account), &[Capability::CAP_DAC_READ_SEARCH])
}

/// Gives up all capabilities except the `needed` ones, for this thread and everything it starts.
///
/// Needed capabilities may be missing: the operation that needs a missing capability reports its own error.
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

//! What the gateway and its threads may do.

use anyhow::Context as _;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Ports below this are for those with `CAP_NET_BIND_SERVICE`.
const FIRST_FREE_PORT: u16 = 1_024;

/// What starting any service again takes: devices and their settings and the firewall's table;
/// sockets that see packets; and, only if one is named, a port below 1024.
pub(crate) fn needed(config: &Config) -> Vec<Capability> {
    let tunnel = config.tunnel.as_ref().map(|tunnel| tunnel.listen);
    let station = config.s5066.as_ref().map(|station| station.listen);
    let bearer = config.hf_pep.as_ref().and_then(|it| it.bearer.listen);
    let made = config.hf_pep.iter().flat_map(|it| &it.listeners).map(|it| it.at);
    let mut needed = vec![Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
    let messages = config.sar.iter().flat_map(|it| it.listen.iter().copied().chain(it.udp));
    let named = [tunnel, station, bearer].into_iter().flatten().chain(made).chain(messages);
    // The protocols' own ports are below it.
    let has_routing = config.routing.is_some();
    if has_routing || named.into_iter().any(|listen| listen.port() < FIRST_FREE_PORT) {
        needed.push(Capability::CAP_NET_BIND_SERVICE);
    }
    // The socket of programs is given to their user or group.
    let socket = config.sar.as_ref().map(|it| &it.socket);
    if socket.is_some_and(|it| it.owner.is_some() || it.group.is_some()) {
        needed.push(Capability::CAP_CHOWN);
    }
    needed
}

/// Takes as many descriptors as there may be: a connection needs one, and the soft limit is often 1024.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn take_descriptors() -> anyhow::Result<()> {
    let (_, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of descriptors")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of descriptors")
}

/// Gives up all capabilities but those that are `needed`, for this thread and whatever it starts.
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

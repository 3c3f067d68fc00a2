//! Opening the two ends of the cable, each in its own network namespace.

use anyhow::anyhow;
use gateway::sys::port::{NoPort, Port};

use super::options::End;
use crate::failure::misuse;
use crate::namespace;

/// Opens the interface, or says in one sentence why not and what to do.
pub(super) fn open(end: &End) -> anyhow::Result<Port> {
    match &end.namespace {
        Some(name) => namespace::within(name, || open_here(end))?,
        None => open_here(end),
    }
}

fn open_here(end: &End) -> anyhow::Result<Port> {
    Port::open(&end.interface).map_err(|reason| match reason {
        NoPort::Down => {
            let namespace = end.namespace.iter().map(|name| format!("-n {name} "));
            let namespace: String = namespace.collect();
            anyhow!("{end} is down: `ip {namespace}link set dev {} up` changes that", end.interface)
        }
        NoPort::Missing => misuse(format_args!(
            "there is no interface {end}: `ip link` shows those there are in a network namespace"
        )),
        NoPort::NotEthernet => misuse(format_args!(
            "{end} is not an Ethernet interface: a veth, a bridge or a network card would do"
        )),
        NoPort::NotPermitted => {
            anyhow!("joining interfaces needs root (or CAP_NET_RAW): run this with sudo")
        }
        NoPort::System(error) => anyhow!("cannot open {end}: {error}"),
    })
}

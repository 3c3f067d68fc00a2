//! Opening the two ends of the cable, each in its own network namespace.

use std::fs::File;
use std::thread;

use anyhow::anyhow;
use gateway::sys::port::{NoPort, Port};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use super::options::End;
use crate::failure::misuse;

/// Opens the interface, or says in one sentence why not and what to do.
pub(super) fn open(end: &End) -> anyhow::Result<Port> {
    let Some(namespace) = &end.namespace else { return open_here(end) };
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).map_err(|_| {
        misuse(format_args!(
            "there is no network namespace {namespace}: `ip netns list` shows those there are"
        ))
    })?;

    // A thread can enter a namespace without taking the process along; the socket stays in it.
    thread::scope(|scope| {
        let opened = scope.spawn(|| match setns(&file, CloneFlags::CLONE_NEWNET) {
            Err(Errno::EPERM) => {
                Err(anyhow!("entering a network namespace needs root: run this with sudo"))
            }
            Err(errno) => Err(anyhow!("{path} is no network namespace: {errno}")),
            Ok(()) => open_here(end),
        });
        opened.join().expect("opening a socket does not panic")
    })
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

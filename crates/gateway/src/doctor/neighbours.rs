//! Finds next hops that packets cannot reach: routers that do not answer, and wrong permanent neighbour entries.
//!
//! The kernel never verifies a hardware address that was set by hand. For each such entry we send an ARP request
//! ourselves; an answer from another hardware address shows that the entry is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use base::ethernet::Mac;
use host::Kernel;
use host::links::{self, LinkState};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::config::Config;
use crate::config::traffic::Call;
use crate::linux::routes::{NextHop, Routes};
use crate::sys::port::{OFFLOAD, Port};

/// A neighbour: the index of the interface, and the IP address there.
pub(super) type Neighbour = (u32, IpAddr);

/// Wait for an answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// Limit on the neighbours asked in one round.
const MOST: usize = 8;
/// Octets of an Ethernet header, and of an ARP message for IPv4 (RFC 826).
const LEN: usize = 14 + 28;
/// The Ethertype of ARP; then ARP's hardware type, protocol type and address lengths for IPv4 on Ethernet.
const KIND: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];

/// Next hops that packets do not reach.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Lost {
    /// Routers that do not answer the kernel's ARP requests or neighbour solicitations.
    pub(super) silent: BTreeSet<Neighbour>,
    /// Neighbours with a wrong permanent entry: the hardware address set by hand, and the one that answers.
    pub(super) wrong: BTreeMap<Neighbour, (Mac, Mac)>,
}

/// Routers towards peers and servers whose hardware address the kernel is asking for now.
pub(super) fn sought_routers(config: &Config) -> BTreeSet<Neighbour> {
    let (Ok(mut routes), Ok(mut kernel)) = (Routes::open(), Kernel::open()) else {
        return BTreeSet::new();
    };
    let mut router = |call: &Call| match routes.marked(call.to?, call.mark) {
        NextHop::Neighbour { interface, address } if Some(address) != call.to => {
            links::is_sought(&mut kernel, interface, address).then_some((interface, address))
        }
        _ => None,
    };
    config.calls().iter().filter_map(&mut router).collect()
}

/// For each permanent neighbour entry, the other station that answered, if any. We ask once per entry, because
/// permanent entries often serve to keep ARP off a slow radio.
#[derive(Default)]
pub(super) struct Asked(BTreeMap<(Neighbour, Mac), Option<Mac>>);

/// Checks the permanent entries of next hops towards peers and servers, and of MANET neighbours; returns the wrong ones.
/// Without such entries nothing is sent.
pub(super) fn wrong_entries(config: &Config, asked: &mut Asked) -> BTreeMap<Neighbour, (Mac, Mac)> {
    let (Ok(mut routes), Ok(mut kernel)) = (Routes::open(), Kernel::open()) else {
        return BTreeMap::new();
    };
    let ways =
        config.calls().into_iter().filter_map(|call| match routes.marked(call.to?, call.mark) {
            NextHop::Neighbour { interface, address } => Some((interface, address)),
            NextHop::Here | NextHop::Nowhere => None,
        });
    let ways: BTreeSet<_> = ways.collect();
    let radios = config.radios().into_iter();
    let radios = radios.filter_map(|name| LinkState::read(&mut kernel, &name).ok()?);
    let radios: BTreeSet<_> = radios.map(|state| state.index).collect();
    let all = links::set_by_hand(&mut kernel).unwrap_or_default().into_iter();
    let all = all.map(|(index, address, set)| ((index, address), set));
    let is_its = |it: &Neighbour| radios.contains(&it.0) || ways.contains(it);
    let its: BTreeSet<_> = all.filter(|(it, _)| it.1.is_ipv4() && is_its(it)).collect();
    asked.0.retain(|known, _| its.contains(known));
    let new = its.iter().filter(|it| !asked.0.contains_key(it)).take(MOST);
    for &((index, address), set) in new.collect::<Vec<_>>() {
        if let IpAddr::V4(to) = address
            && let Some(name) = links::existing_name(index)
            && let Ok(Some(state)) = LinkState::read(&mut kernel, &name)
        {
            asked.0.insert(((index, address), set), station_of(&name, &state, to, set));
        }
    }
    asked.0.iter().filter_map(|((it, set), other)| Some((*it, (*set, (*other)?)))).collect()
}

/// The station that answers for an address; `None` if the `expected` one answers, or nobody.
fn station_of(name: &str, state: &LinkState, to: Ipv4Addr, expected: Mac) -> Option<Mac> {
    let own = state.addresses.iter().find_map(|it| match it {
        IpAddr::V4(own) => Some(*own),
        IpAddr::V6(_) => None,
    });
    let port = Port::open(name).ok()?;
    port.send(&request(state.mac?, own?, to)).ok()?;
    let until = Instant::now() + PATIENCE;
    let mut other = None;
    let mut frame = vec![0; 1 << 16];
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], timeout);
        while let Ok(Some(received)) = port.receive(&mut frame) {
            match frame.get(OFFLOAD..received.len).and_then(|it| answer(it, to)) {
                Some(station) if station == expected => return None,
                Some(station) => other = Some(station),
                None => {}
            }
        }
    }
    other
}

/// An ARP request, after an empty offload header.
fn request(mac: Mac, own: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let parts: [&[u8]; 9] = [
        &[0; OFFLOAD],
        &Mac::EVERYONE.0,
        &mac.0,
        &KIND,
        &[0, 1],
        &mac.0,
        &own.octets(),
        &[0; 6],
        &to.octets(),
    ];
    parts.concat()
}

/// The sender of an ARP reply for this address.
fn answer(frame: &[u8], of: Ipv4Addr) -> Option<Mac> {
    let message = frame.get(12..LEN)?;
    let is_answer = message[..8] == KIND && message[8..10] == [0, 2];
    let station = Mac(message[10..16].try_into().ok()?);
    (is_answer && message[16..20] == of.octets()).then_some(station)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_station_of_the_address_asked_for() {
        let (asks, answers) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let asked = request(asks, from, to);
        let mut answered = request(answers, to, from);
        answered[OFFLOAD + 21] = 2;

        assert_eq!(asked.len(), OFFLOAD + LEN);
        assert_eq!(answer(&answered[OFFLOAD..], to), Some(answers));
        assert_eq!(answer(&answered[OFFLOAD..], from), None);
        assert_eq!(answer(&asked[OFFLOAD..], from), None);
        assert_eq!(answer(&answered[OFFLOAD..OFFLOAD + LEN - 1], to), None);
    }
}

//! Looks at the neighbours by which services send: whether routers answer, and whether an address set by hand is wrong.
//!
//! Only who asks the others knows whether a hardware address that somebody has given to the kernel is wrong: an ARP request
//! goes out for each such neighbour, and another station answers it.

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

/// A neighbour: the number of the interface, and the address there.
pub(super) type Neighbour = (u32, IpAddr);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(200);
/// Neighbours that are asked for at most.
const MOST: usize = 8;
/// Ethernet's header, and a message of ARP for IPv4 (RFC 826).
const LEN: usize = 14 + 28;
/// Ethernet's type of ARP, ARP's types of Ethernet and IPv4, and the lengths of their addresses.
const KIND: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];

/// Neighbours that packets do not reach.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Lost {
    /// Routers for whose hardware address the kernel asks in vain.
    pub(super) silent: BTreeSet<Neighbour>,
    /// Neighbours whose hardware address is set by hand, and wrong: the address set, and the address that answers ARP.
    pub(super) misled: BTreeMap<Neighbour, (Mac, Mac)>,
}

/// Routers on the way to whom services call for whose hardware address the kernel asks now.
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

/// Stations that answered for neighbours with a hardware address set by hand, unless the right one did: each is asked for
/// once, because such addresses often keep ARP off a slow radio.
#[derive(Default)]
pub(super) struct Asked(BTreeMap<(Neighbour, Mac), Option<Mac>>);

/// Neighbours on the way to whom services call, and in the MANET, whose hardware address is set by hand and wrong. Where
/// none is set, nothing is sent.
pub(super) fn misled(config: &Config, asked: &mut Asked) -> BTreeMap<Neighbour, (Mac, Mac)> {
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

/// The station that answers for an address; none if the `expected` one answers, or nobody.
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

/// A request of ARP, behind an empty offload header.
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

/// The station that answers for an address, if the frame is such an answer.
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

//! Finds next hops that packets cannot reach: routers that do not answer, and wrong permanent neighbour entries.
//!
//! The kernel never verifies a hardware address that was set by hand. For each such entry we send an ARP request or a
//! neighbour solicitation ourselves; an answer with another hardware address shows that the entry is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use base::ethernet::{self, Mac};
use base::ip::{Spec, protocol, pseudo_header};
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
const ARP: usize = ethernet::HEADER + 28;
/// The Ethertype of ARP; then ARP's hardware type, protocol type and address lengths for IPv4 on Ethernet.
const KIND: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];
/// Types of a neighbour solicitation and a neighbour advertisement (RFC 4861, 4.3 and 4.4).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The options with the sender's, and with the target's hardware address; their length is 1, in units of 8 octets.
const SOURCE_ADDRESS: [u8; 2] = [1, 1];
const TARGET_ADDRESS: [u8; 2] = [2, 1];
/// The hop limit of neighbour discovery, which shows that no router has forwarded a message.
const HOP_LIMIT: u8 = 255;

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
    let all = links::neighbours(&mut kernel, links::PERMANENT).unwrap_or_default().into_iter();
    let all = all.map(|(index, address, set)| ((index, address), set));
    let is_its = |it: &Neighbour| radios.contains(&it.0) || ways.contains(it);
    let its: BTreeSet<_> = all.filter(|(it, _)| is_its(it)).collect();
    asked.0.retain(|known, _| its.contains(known));
    let new = its.iter().filter(|it| !asked.0.contains_key(it)).take(MOST);
    for &((index, address), set) in new.collect::<Vec<_>>() {
        if let Some(name) = links::existing_name(index)
            && let Ok(Some(state)) = LinkState::read(&mut kernel, &name)
        {
            asked.0.insert(((index, address), set), station_of(&name, &state, address, set));
        }
    }
    asked.0.iter().filter_map(|((it, set), other)| Some((*it, (*set, (*other)?)))).collect()
}

/// The station that answers for an address; `None` if the `expected` one answers, or nobody.
fn station_of(name: &str, state: &LinkState, to: IpAddr, expected: Mac) -> Option<Mac> {
    let own = state.addresses.iter().find(|it| it.is_ipv4() == to.is_ipv4())?;
    let request = match (*own, to) {
        (IpAddr::V4(own), IpAddr::V4(to)) => request(state.mac?, own, to),
        (IpAddr::V6(own), IpAddr::V6(to)) => solicitation(state.mac?, own, to),
        _ => return None,
    };
    let port = Port::open(name).ok()?;
    port.send(&request).ok()?;
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

/// A neighbour solicitation, after an empty offload header. It goes to the group of all hosts whose addresses end alike
/// (RFC 4291, 2.7.1).
fn solicitation(mac: Mac, own: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = to.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let (own, station) = (IpAddr::from(own), Mac([0x33, 0x33, 0xff, a, b, c]));
    let parts: [&[u8]; 4] =
        [&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0], &to.octets(), &SOURCE_ADDRESS, &mac.0];
    let mut message = parts.concat();
    let sum = pseudo_header(own, group.into(), protocol::ICMPV6, message.len()).with(&message);
    message[2..4].copy_from_slice(&sum.finish().to_be_bytes());

    let mut packet = Vec::new();
    let spec = Spec { ttl: HOP_LIMIT, ..Spec::new(own, group.into(), protocol::ICMPV6) };
    spec.emit(message.len(), &mut packet);
    packet.extend_from_slice(&message);
    [&[0; OFFLOAD][..], &ethernet::header(station, mac, &packet), &packet].concat()
}

/// The hardware address in an ARP reply or a neighbour advertisement for this address.
fn answer(frame: &[u8], of: IpAddr) -> Option<Mac> {
    let (is_answer, station) = match of {
        IpAddr::V4(of) => {
            let message = frame.get(12..ARP)?;
            let is_answer = message[..8] == KIND && message[8..10] == [0, 2];
            (is_answer && message[16..20] == of.octets(), &message[10..16])
        }
        IpAddr::V6(of) => {
            let packet = frame.get(12..ethernet::HEADER + 40 + 32)?;
            let (header, message) = packet[2..].split_at(40);
            let is_advertisement = packet[..2] == [0x86, 0xdd]
                && header[6..8] == [protocol::ICMPV6, HOP_LIMIT]
                && message[..2] == [ADVERTISEMENT, 0];
            let is_answer = is_advertisement && message[24..26] == TARGET_ADDRESS;
            (is_answer && message[8..24] == of.octets(), &message[26..32])
        }
    };
    is_answer.then(|| station.try_into().ok().map(Mac))?
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

        assert_eq!(asked.len(), OFFLOAD + ARP);
        assert_eq!(answer(&answered[OFFLOAD..], to.into()), Some(answers));
        assert_eq!(answer(&answered[OFFLOAD..], from.into()), None);
        assert_eq!(answer(&asked[OFFLOAD..], from.into()), None);
        assert_eq!(answer(&answered[OFFLOAD..OFFLOAD + ARP - 1], to.into()), None);
    }

    /// RFC 4861, 4.3 and 4.4.
    #[test]
    fn an_advertisement_names_the_station_of_the_address_solicited() {
        let (from, to): (Ipv6Addr, Ipv6Addr) =
            ("fd09::1".parse().unwrap(), "fd09::2".parse().unwrap());
        let asked = solicitation(Mac([2, 0, 0, 0, 0, 1]), from, to);
        let header = [0x33, 0x33, 0xff, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        let mut answered = asked[OFFLOAD..].to_vec();
        answered[54] = ADVERTISEMENT;
        answered[78..86].copy_from_slice(&[2, 1, 2, 0, 0, 0, 0, 2]);
        let changed = |at: usize, octet: u8| {
            let mut frame = answered.clone();
            frame[at] = octet;
            answer(&frame, to.into())
        };

        assert_eq!(asked[OFFLOAD..OFFLOAD + 14], header);
        assert_eq!(asked[OFFLOAD + 14..][..8], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!(answer(&answered, to.into()), Some(Mac([2, 0, 0, 0, 0, 2])));
        assert_eq!(answer(&answered, from.into()), None);
        assert_eq!(answer(&asked[OFFLOAD..], to.into()), None);
        assert_eq!(changed(21, 254), None, "it came through a router");
        assert_eq!(changed(78, 1), None, "it has no address of the target");
        assert_eq!(answer(&answered[..85], to.into()), None);
    }
}

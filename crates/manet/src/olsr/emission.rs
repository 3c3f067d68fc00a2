//! Makes a node's own messages, and decides when they are due (RFC 3626, 5.2, 6.2, 9.2 and 12.2).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base::time::Time;

use super::config::TcRedundancy;
use super::router::Olsr;
use super::stats::Counter;
use super::wire::{
    ADDRESS, Addresses, BLOCK_HEADER, HELLO_HEADER, Header, Hello, Hna, Interval, Kind, LinkCode,
    MESSAGE_HEADER, PACKET_HEADER, TC_HEADER, Tc,
};

impl Olsr {
    /// Recalculates the set of neighbours that TC messages announce.
    pub(super) fn advertise(&mut self, now: Time) {
        let mut neighbours: BTreeSet<Ipv4Addr> = self.hood.selectors().collect();
        match self.config.tc_redundancy {
            TcRedundancy::Selectors => {}
            TcRedundancy::Relays => neighbours.extend(self.hood.relays()),
            TcRedundancy::All => neighbours = self.hood.symmetric().keys().copied().collect(),
        }
        if neighbours != *self.advert.neighbours() {
            let early = now + self.jitter();
            self.advert.set(now, neighbours, early, &self.config);
        }
    }

    /// The node's addresses without the main one.
    pub(super) fn other_addresses(&self) -> Vec<Ipv4Addr> {
        let main = self.own.main();
        self.own.addresses.iter().copied().filter(|address| Some(*address) != main).collect()
    }

    /// The networks of IPv4 behind the node.
    pub(super) fn networks(&self) -> Vec<(Ipv4Addr, u8)> {
        let attached = self.config.attached.iter().map(|prefix| prefix.network());
        let networks = attached.filter_map(|prefix| match prefix.address() {
            IpAddr::V4(address) => Some((address, prefix.bits())),
            IpAddr::V6(_) => None,
        });
        networks.collect()
    }

    /// Makes the messages that are due.
    pub(super) fn originate(&mut self, now: Time) {
        for port in self.ports.values_mut() {
            if port.hello_at <= now {
                port.owes_hello = true;
                let jitter = self.rng.within(self.config.max_jitter);
                port.hello_at = now + self.config.hello_interval.saturating_sub(jitter);
            }
        }
        if self.advert.is_due(now) {
            self.originate_tc(now);
        }
        if self.mid_at.is_some_and(|due| due <= now) {
            self.mid_at = Some(self.after(now, self.config.mid_interval));
            let addresses = self.other_addresses();
            let hold = self.config.mid_hold;
            let form = Form { kind: Kind::MID, hold, header: 0, entry: ADDRESS };
            let sent = self.flood(now, &form, &addresses, Addresses::emit);
            self.stats.add(Counter::MidSent, sent);
        }
        if self.hna_at.is_some_and(|due| due <= now) {
            self.hna_at = Some(self.after(now, self.config.hna_interval));
            let networks = self.networks();
            let hold = self.config.hna_hold;
            let form = Form { kind: Kind::HNA, hold, header: 0, entry: 2 * ADDRESS };
            let sent = self.flood(now, &form, &networks, Hna::emit);
            self.stats.add(Counter::HnaSent, sent);
        }
        self.ports.values_mut().for_each(|port| port.outbox.handle_timeout(now));
    }

    fn originate_tc(&mut self, now: Time) {
        let next = self.after(now, self.config.tc_interval);
        let Some((ansn, neighbours)) = self.advert.take(now, next) else { return };
        let hold = self.config.topology_hold;
        let form = Form { kind: Kind::TC, hold, header: TC_HEADER, entry: ADDRESS };
        let sent = self.flood(now, &form, &neighbours, |part, out| Tc::emit(ansn, part, out));
        self.stats.add(Counter::TcSent, sent);
    }

    /// When a message sent once per `interval` is due again.
    fn after(&mut self, now: Time, interval: Duration) -> Time {
        now + interval.saturating_sub(self.jitter())
    }

    /// Floods messages: as many as needed for each to fit a packet on each interface. Returns their number.
    fn flood<T>(
        &mut self,
        now: Time,
        form: &Form,
        entries: &[T],
        emit: impl Fn(&[T], &mut Vec<u8>),
    ) -> u64 {
        let Some(originator) = self.own.main().filter(|_| !self.ports.is_empty()) else { return 0 };
        self.ports.values_mut().for_each(|port| port.outbox.withdraw(form.kind));
        let room = self.ports.values().map(|port| port.interface.room).min().unwrap_or_default();
        let room = room.saturating_sub(PACKET_HEADER + MESSAGE_HEADER + form.header);
        let most = room / form.entry;
        if most == 0 {
            self.stats.count(Counter::MessagesTooBig);
            return 0;
        }

        let nothing = entries.is_empty().then_some(entries);
        let parts = entries.chunks(most).chain(nothing);
        let mut sent = 0;
        for part in parts {
            let header = Header {
                kind: form.kind,
                validity: Interval::at_least(form.hold),
                originator,
                ttl: u8::MAX,
                hops: 0,
                seq: self.numbers.give(now),
            };
            let mut octets = Vec::new();
            header.emit(&mut octets, |out| emit(part, out));
            let octets: Arc<[u8]> = octets.into();
            self.ports.values_mut().for_each(|port| {
                port.outbox.push_own(now, form.kind, octets.clone());
            });
            sent += 1;
        }
        sent
    }

    /// Makes the HELLO due on an interface: as many messages as needed for each to fit a packet.
    pub(super) fn greet(&mut self, now: Time, interface: usize) {
        let (Some(originator), Some(port)) = (self.own.main(), self.ports.get_mut(&interface))
        else {
            return;
        };
        if !std::mem::take(&mut port.owes_hello) {
            return;
        }
        port.outbox.withdraw(Kind::HELLO);
        let room = port.interface.room;
        let room = room.saturating_sub(PACKET_HEADER + MESSAGE_HEADER + HELLO_HEADER);
        if room < BLOCK_HEADER + ADDRESS {
            self.stats.count(Counter::MessagesTooBig);
            return;
        }

        let told = self.hood.told(interface);
        let interval = Interval::at_least(self.config.hello_interval);
        let willingness = self.config.willingness;
        for part in split(&told, room) {
            let header = Header {
                kind: Kind::HELLO,
                validity: Interval::at_least(self.config.neighbour_hold),
                originator,
                ttl: 1,
                hops: 0,
                seq: self.numbers.give(now),
            };
            let mut octets = Vec::new();
            header.emit(&mut octets, |out| Hello::emit(interval, willingness, part, out));
            if let Some(port) = self.ports.get_mut(&interface) {
                port.outbox.push_own(now, Kind::HELLO, octets.into());
            }
            self.stats.count(Counter::HellosSent);
        }
    }
}

/// The layout of messages of one kind.
struct Form {
    kind: Kind,
    /// How long receivers keep the content.
    hold: Duration,
    /// Octets before the first entry, and of each.
    header: usize,
    entry: usize,
}

/// Splits the neighbours into HELLOs with `room` octets for blocks each; one empty part if there are no neighbours.
fn split(told: &[(LinkCode, Ipv4Addr)], room: usize) -> Vec<&[(LinkCode, Ipv4Addr)]> {
    let (mut parts, mut rest) = (Vec::new(), told);
    loop {
        let (mut len, mut count) = (0, 0);
        let mut last = None;
        for (code, _) in rest {
            let block = if last == Some(*code) { 0 } else { BLOCK_HEADER };
            if len + block + ADDRESS > room {
                break;
            }
            len += block + ADDRESS;
            count += 1;
            last = Some(*code);
        }
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
        if rest.is_empty() {
            return parts;
        }
    }
}

//! Rules under storm: whatever pieces a sender makes, no packet comes together behind the table that its rules block;
//! a plain packet of an allowed flow passes, and each packet is counted once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base::ip::{Fragment, Header, Prefix, V4_HEADER, protocol, rewrite_v4_checksum};
use base::rng::Rng;
use base::time::Time;
use rules::{
    Action, Config, Options, PortRange, Ports, Protocol, Refusal, Rule, Selector, Table, Verdict,
};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To};

/// Identifications of packets: few, so different packets share some.
const IDENTS: usize = 6;
/// Ports and hosts that rules and packets are about.
const PORTS: std::ops::Range<u16> = 20..28;
const HOSTS: usize = 3;
/// The header of destination options, of eight octets, before the transport of some IPv6 packets.
const OPTIONS: u8 = 60;
const FRAGMENT: u8 = 44;
/// Payload octets of a packet: beyond the longest TCP header, and a few fragments long.
const PAYLOADS: std::ops::Range<usize> = 24..200;
/// The most packets that the host behind the table puts together at a time.
const MOST_BEGUN: usize = 512;

/// What a rule of the storm says, apart from the table's own reading of it.
#[derive(Clone, Copy, Debug)]
struct Said {
    protocol: Option<u8>,
    from_port: Option<u16>,
    to_port: Option<u16>,
    host: Option<usize>,
    blocks: bool,
}

/// The sender's flow.
#[derive(Clone, Copy, Debug)]
struct Meant {
    is_v4: bool,
    host: usize,
    protocol: u8,
    ports: (u16, u16),
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_v4, host, protocol, ports: (from, to) } = self;
        let version = if *is_v4 { 4 } else { 6 };
        write!(f, "IPv{version}, protocol {protocol}, ports {from} to {to}, host {host}")
    }
}

/// Fragments that passed the table, by their packet's key, with the rules' version at the first fragment.
type Begun = BTreeMap<(IpAddr, IpAddr, u8, u32), (u64, Pieces)>;

/// Pieces in the order of their coming: offset, whether more follow, the type of the first header, octets.
type Pieces = Vec<(usize, bool, u8, Vec<u8>)>;

/// Sender, table, and the host behind the table that puts packets together.
#[derive(Debug)]
pub struct Verdicts {
    table: Table,
    said: Vec<Said>,
    outgoing: VecDeque<Vec<u8>>,
    begun: Begun,
    /// Counts the changes of the rules.
    edition: u64,
    handled: u64,
    /// Counted before the latest change of the rules.
    counted: u64,
    /// Plain packets of allowed flows that are sent in the calm, by identification.
    awaited: BTreeMap<u32, Meant>,
    fault: Option<String>,
}

impl Verdicts {
    pub fn new(course: &Course) -> Self {
        let said = draw(&mut Rng::stream(course.seed, "storm rules"));
        Self {
            table: Table::new(config(&said)),
            said,
            outgoing: VecDeque::new(),
            begun: Begun::new(),
            edition: 0,
            handled: 0,
            counted: 0,
            awaited: BTreeMap::new(),
            fault: None,
        }
    }

    /// The table decides on a packet; what passes goes to the host behind.
    fn handle(&mut self, octets: &[u8]) -> Kept {
        let Ok(header) = Header::parse(octets) else { return Ok(()) };
        let decision = self.table.handle_packet(&header, octets, None);
        let is_passed = matches!(decision.verdict, Verdict::Pass { .. });
        self.handled += 1;
        if !is_passed {
            return Ok(());
        }
        let octets = &octets[..header.total_len];
        let Some(fragment) = header.fragment else {
            return self.judge(&header, header.protocol, &octets[header.len..]);
        };
        self.put(&header, fragment, octets)
    }

    /// Adds a fragment to its packet, and judges each packet that the fragments can form.
    fn put(&mut self, header: &Header, fragment: Fragment, octets: &[u8]) -> Kept {
        let kind = if header.is_v4() { header.protocol } else { 0 };
        let key = (header.source, header.destination, kind, fragment.ident);
        if self.begun.len() >= MOST_BEGUN && !self.begun.contains_key(&key) {
            self.begun.pop_first();
        }
        let (edition, pieces) = self.begun.entry(key).or_default();
        if fragment.offset == 0 && *edition != self.edition {
            // A first piece under earlier rules was theirs to judge, and no table knows which one a host keeps.
            pieces.clear();
            *edition = self.edition;
        }
        pieces.push((
            fragment.offset,
            fragment.more,
            fragment.kind,
            octets[fragment.start..].to_vec(),
        ));
        // Of two overlapping fragments some hosts keep the first, others the second.
        let wholes = [join(pieces.iter()), join(pieces.iter().rev())];
        for (kind, whole) in wholes.into_iter().flatten() {
            self.judge(header, kind, &whole)?;
        }
        Ok(())
    }

    /// A packet is behind the table: its rules must allow it.
    fn judge(&mut self, header: &Header, first: u8, payload: &[u8]) -> Kept {
        let (mut kind, mut rest) = (first, payload);
        if !header.is_v4() {
            while matches!(kind, 0 | 43 | FRAGMENT | 51 | OPTIONS) {
                let Some((&[next, len], _)) = rest.split_first_chunk::<2>() else { return Ok(()) };
                let octets = match kind {
                    FRAGMENT => 8,
                    51 => 4 * (usize::from(len) + 2),
                    _ => 8 * (usize::from(len) + 1),
                };
                let Some(behind) = rest.get(octets..) else { return Ok(()) };
                (kind, rest) = (next, behind);
            }
        }
        let least = match kind {
            protocol::TCP => 20,
            protocol::UDP => 8,
            _ => 0,
        };
        // No host takes a packet that ends within its header.
        if rest.len() < least {
            return Ok(());
        }
        let ports = rest.first_chunk::<4>().filter(|_| least > 0);
        let ports =
            ports.map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        let host = (0..HOSTS).find(|host| address(header.is_v4(), *host) == header.destination);
        match self.verdict(kind, ports, host) {
            true => {
                let ports =
                    ports.map_or(String::new(), |(from, to)| format!(", ports {from} to {to}"));
                let host = host.map_or("another host".to_owned(), |host| format!("host {host}"));
                Err(format!("passed: protocol {kind}{ports} to {host} is blocked"))
            }
            false => Ok(()),
        }
    }

    /// Whether the rules block a flow, read in the plainest way.
    fn verdict(&self, kind: u8, ports: Option<(u16, u16)>, host: Option<usize>) -> bool {
        let fits = |said: &&Said| {
            said.protocol.is_none_or(|own| own == kind)
                && said.host.is_none_or(|own| Some(own) == host)
                && said.from_port.is_none_or(|own| ports.is_some_and(|(from, _)| from == own))
                && said.to_port.is_none_or(|own| ports.is_some_and(|(_, to)| to == own))
        };
        self.said.iter().find(fits).is_some_and(|said| said.blocks)
    }

    /// All that the table has counted, its drops without a rule among them.
    fn counts(&self) -> u64 {
        let stats = self.table.stats();
        let hits: u64 = self.table.counters().map(|(_, counters)| counters.hits).sum();
        hits + stats.fragments_overlapping + stats.packets_headless
    }
}

impl Cores for Verdicts {
    const CALM: Duration = Duration::from_secs(3_600);
    const IS_OPEN: bool = true;

    /// The sender makes packets of one or two flows with one identification, and sends pieces of both.
    fn act(&mut self, _now: Time, node: usize, rng: &mut Rng) -> Kept {
        if node != 0 {
            return Ok(());
        }
        let one = Meant::draw(rng);
        let other =
            Meant { protocol: one.protocol, is_v4: one.is_v4, host: one.host, ..Meant::draw(rng) };
        let ident = u32::try_from(choice(rng, IDENTS)).expect("few");
        let has_options = rng.chance(0.3);
        let len = log_count(rng, PAYLOADS);
        let mut pieces = Vec::new();
        for meant in [one, other] {
            if rng.chance(0.2) {
                self.outgoing.push_back(meant.whole(&meant.content(len, has_options), has_options));
                continue;
            }
            let content = meant.content(len, has_options);
            let size = 8 * (1 + choice(rng, 6));
            for (at, piece) in content.chunks(size).enumerate() {
                pieces.push(meant.piece(
                    at * size,
                    (at + 1) * size < content.len(),
                    ident,
                    has_options,
                    piece,
                ));
            }
            // A piece from anywhere, with an end that may be false.
            if rng.chance(0.5) {
                let at = 8 * choice(rng, len / 8);
                let end = (at + 8 * (1 + choice(rng, 4))).min(content.len());
                pieces.push(meant.piece(
                    at,
                    rng.chance(0.7),
                    ident,
                    has_options,
                    &content[at..end],
                ));
            }
        }
        if rng.chance(0.6) {
            for at in (1..pieces.len()).rev() {
                pieces.swap(at, choice(rng, at + 1));
            }
        }
        let drops = if rng.chance(0.5) { 0.2 } else { 0.0 };
        self.outgoing.extend(pieces.into_iter().filter(|_| !rng.chance(drops)));
        Ok(())
    }

    fn arrive(&mut self, _now: Time, node: usize, _from: usize, octets: &[u8]) -> Kept {
        if node == 0 {
            return Ok(());
        }
        self.handle(octets)?;
        let Ok(header) = Header::parse(octets) else { return Ok(()) };
        let ident = header.fragment.map_or(0, |fragment| fragment.ident);
        let Some(meant) = self.awaited.get(&ident).copied() else { return Ok(()) };
        // The last piece has come: the packet is whole behind the table if every piece passed.
        if header.fragment.is_some_and(|fragment| !fragment.more) {
            self.awaited.remove(&ident);
            let is_whole = self
                .begun
                .iter()
                .any(|((.., own), (_, pieces))| *own == ident && join(pieces.iter()).is_some());
            if !is_whole {
                self.fault =
                    Some(format!("blocked: {meant} is allowed and does not pass in pieces"));
            }
        }
        Ok(())
    }

    fn forge(&mut self, _now: Time, node: usize, octets: &[u8]) {
        if node == 1
            && let Err(why) = self.handle(octets)
        {
            self.fault = Some(why);
        }
    }

    /// New rules.
    fn restart(&mut self, _now: Time, _node: usize, mut rng: Rng) -> Kept {
        self.said = draw(&mut rng);
        self.table.replace(config(&self.said));
        self.edition += 1;
        // Rules of other names take their counters along.
        self.counted = self.handled - self.counts();
        Ok(())
    }

    fn handle_timeout(&mut self, _now: Time, _node: usize) {}

    fn next_timeout(&self, _node: usize) -> Option<Time> {
        None
    }

    fn poll(&mut self, _now: Time, _node: usize) -> Result<bool, String> {
        Ok(false)
    }

    fn poll_transmit(&mut self, _now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        if node != 0 {
            return None;
        }
        *out = self.outgoing.pop_front()?;
        Some(Sent { to: To::One(1), tag: 0 })
    }

    fn check(&self, _node: usize) -> Kept {
        if let Some(why) = &self.fault {
            return Err(why.clone());
        }
        if self.counted + self.counts() != self.handled {
            return Err(format!("uncounted: {} packets, {} counted", self.handled, self.counts()));
        }
        Ok(())
    }

    fn calm(&mut self, _now: Time, node: usize) -> Kept {
        if node != 0 {
            return Ok(());
        }
        for (at, port) in PORTS.enumerate() {
            for kind in [protocol::TCP, protocol::UDP] {
                let is_v4 = at % 2 == 0;
                let meant =
                    Meant { is_v4, host: at % HOSTS, protocol: kind, ports: (PORTS.start, port) };
                if self.verdict(kind, Some(meant.ports), Some(meant.host)) {
                    continue;
                }
                let ident = 1_000 + u32::from(port) * 256 + u32::from(kind);
                let content = meant.content(100, !is_v4);
                for (at, piece) in content.chunks(48).enumerate() {
                    let more = (at + 1) * 48 < content.len();
                    self.outgoing.push_back(meant.piece(at * 48, more, ident, !is_v4, piece));
                }
                self.awaited.insert(ident, meant);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.awaited.is_empty() && self.outgoing.is_empty()
    }

    fn conclude(&self) -> Kept {
        match self.awaited.first_key_value() {
            Some((_, meant)) => Err(format!("blocked: the last piece of {meant} did not come")),
            None => Ok(()),
        }
    }
}

impl Meant {
    fn draw(rng: &mut Rng) -> Self {
        let port =
            |rng: &mut Rng| PORTS.start + u16::try_from(choice(rng, PORTS.len())).expect("few");
        Self {
            is_v4: rng.chance(0.5),
            host: choice(rng, HOSTS),
            protocol: if rng.chance(0.5) { protocol::TCP } else { protocol::UDP },
            ports: (port(rng), port(rng)),
        }
    }

    /// The fragmentable part: extension header, transport header, payload.
    fn content(&self, len: usize, has_options: bool) -> Vec<u8> {
        let mut content = Vec::new();
        if has_options && !self.is_v4 {
            // Options of padding.
            content.extend([self.protocol, 0, 1, 4, 0, 0, 0, 0]);
        }
        content.extend(self.ports.0.to_be_bytes());
        content.extend(self.ports.1.to_be_bytes());
        content.resize(content.len() + len, 0x55);
        content
    }

    /// The type of the first header of the fragmentable part.
    fn kind(&self, has_options: bool) -> u8 {
        if has_options && !self.is_v4 { OPTIONS } else { self.protocol }
    }

    fn whole(&self, content: &[u8], has_options: bool) -> Vec<u8> {
        self.emit(self.kind(has_options), 0, &[], content)
    }

    fn piece(&self, at: usize, more: bool, ident: u32, has_options: bool, piece: &[u8]) -> Vec<u8> {
        let kind = self.kind(has_options);
        let place = u16::try_from(at).expect("short packets");
        if self.is_v4 {
            let flags = (place / 8) | if more { 0x2000 } else { 0 };
            let mut packet = self.emit(kind, flags, &[], piece);
            packet[4..6].copy_from_slice(&u16::try_from(ident).unwrap_or(0).to_be_bytes());
            rewrite_v4_checksum(&mut packet[..V4_HEADER]);
            return packet;
        }
        let mut header = vec![kind, 0];
        header.extend((place | u16::from(more)).to_be_bytes());
        header.extend(ident.to_be_bytes());
        self.emit(FRAGMENT, 0, &header, piece)
    }

    fn emit(&self, kind: u8, flags: u16, header: &[u8], content: &[u8]) -> Vec<u8> {
        let len = header.len() + content.len();
        let of = |octets: usize| u16::try_from(octets).expect("short packets").to_be_bytes();
        let mut packet = Vec::new();
        let [source, destination] = [HOSTS, self.host].map(|host| address(self.is_v4, host));
        if self.is_v4 {
            packet.extend([0x45, 0]);
            packet.extend(of(V4_HEADER + len));
            packet.extend([0, 0]);
            packet.extend(flags.to_be_bytes());
            packet.extend([64, kind, 0, 0]);
        } else {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(of(len));
            packet.extend([kind, 64]);
        }
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => packet.extend(address.octets()),
                IpAddr::V6(address) => packet.extend(address.octets()),
            }
        }
        if self.is_v4 {
            rewrite_v4_checksum(&mut packet);
        }
        packet.extend(header);
        packet.extend(content);
        packet
    }
}

/// The packet that pieces make if none is missing, and the type of its first header. Where pieces overlap, the octets
/// of the earlier piece count.
fn join<'a>(pieces: impl Iterator<Item = &'a (usize, bool, u8, Vec<u8>)>) -> Option<(u8, Vec<u8>)> {
    let (mut whole, mut end, mut first) = (BTreeMap::new(), None, None);
    for (offset, more, kind, octets) in pieces {
        for (at, octet) in (*offset..).zip(octets) {
            whole.entry(at).or_insert(*octet);
        }
        if *offset == 0 {
            first.get_or_insert(*kind);
        }
        if !more {
            end.get_or_insert(offset + octets.len());
        }
    }
    let end = end?;
    let octets: Vec<u8> = whole.range(..end).map(|(_, octet)| *octet).collect();
    first.filter(|_| octets.len() == end).map(|first| (first, octets))
}

/// Draws rules.
fn draw(rng: &mut Rng) -> Vec<Said> {
    (0..1 + choice(rng, 5))
        .map(|_| {
            let port = |rng: &mut Rng| {
                let port = PORTS.start + u16::try_from(choice(rng, PORTS.len())).expect("few");
                rng.chance(0.4).then_some(port)
            };
            let (from_port, to_port) = (port(rng).filter(|_| rng.chance(0.3)), port(rng));
            let protocols = [protocol::TCP, protocol::UDP];
            Said {
                protocol: rng.chance(0.4).then(|| protocols[choice(rng, 2)]),
                from_port,
                to_port,
                host: rng.chance(0.3).then(|| choice(rng, HOSTS)),
                blocks: rng.chance(0.6),
            }
        })
        .collect()
}

/// The same rules as the table reads them.
fn config(said: &[Said]) -> Config {
    let rules = said.iter().enumerate().map(|(at, said)| {
        let ports = |port: Option<u16>| Ports::new(port.map(PortRange::one).into_iter().collect());
        let hosts = said.host.map(|host| [true, false].map(|is_v4| address(is_v4, host)));
        Rule {
            name: format!("rule-{at}"),
            selector: Selector {
                protocol: said.protocol.map(Protocol::Number),
                destinations: hosts.into_iter().flatten().map(Prefix::host).collect(),
                source_ports: ports(said.from_port),
                destination_ports: ports(said.to_port),
                ..Selector::default()
            },
            action: match said.blocks {
                true => Action::Block(Refusal::Silent),
                false => Action::Pass(Options::default()),
            },
            is_enabled: true,
        }
    });
    Config { rules: rules.collect(), ..Config::default() }
}

fn address(is_v4: bool, host: usize) -> IpAddr {
    let last = u8::try_from(host + 1).expect("a few hosts");
    match is_v4 {
        true => Ipv4Addr::new(10, 0, 0, last).into(),
        false => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

//! Measures the time that seals cost on the air.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::Waveform;
use hf::s5066::seal::{self, Key, OVERHEAD, Sealing};
use hf::s5066::sis::{Client, ClientId, Sap, Service, client};
use hf::s5066::{Address, Node, node};
use sim::hf::{Config, Medium, Net, StationId};

const SAP: Sap = Sap::new(13);
/// An opening of HF-PEP with a request of 78 octets, with addresses in IPv4.
const OPENING: usize = 100;
/// A position report of 100 octets with compressed headers.
const REPORT: usize = 107;

/// The price of a seal in docs/protocols/slep.md, on a clean channel:
/// `cargo test -p trackway-sim --test worlds seal -- --nocapture`.
#[test]
fn a_seal_takes_no_longer_than_its_octets_and_a_block_of_the_interleaver() {
    println!("waveform    octets  plain, s  sealed, s  more, s");
    for waveform in ["75/short", "2400/short", "9600/short"] {
        let parsed: Waveform = waveform.parse().expect("a waveform");
        for octets in [OPENING, REPORT] {
            let [plain, sealed] = [false, true].map(|has_key| delay(parsed, octets, has_key));
            let more = sealed.saturating_sub(plain);
            println!(
                "{waveform:<11} {octets:>6} {:>9.2} {:>10.2} {:>8.2}",
                plain.as_secs_f64(),
                sealed.as_secs_f64(),
                more.as_secs_f64()
            );
            let bits = f64::from(OVERHEAD) * 8.0;
            let own = Duration::from_secs_f64(bits / f64::from(parsed.bits_per_s()));
            assert!(sealed >= plain && more <= own + parsed.block_time(), "{waveform}: {more:?}");
        }
    }
}

/// The time from handing a U_PDU to its node until its arrival at the other client, including the making of the link.
fn delay(waveform: Waveform, octets: usize, has_key: bool) -> Duration {
    let medium = Medium::new(Config::default(), 2, 1);
    let nodes = (1..=2).map(|number| {
        let config = node::Config::new(Address::node(number), waveform);
        Node::new(Time::ZERO, config, Rng::stream(number.into(), "node"))
    });
    let mut net = Net::new(medium, nodes.collect());
    let clients = [1, 2].map(|number| {
        let id = net.at(Time::ZERO, StationId(number - 1), |node| {
            node.handle_connected(Time::ZERO).expect("room for a client")
        });
        let member = seal::Config {
            key: Key::new(&[7; 32]),
            own: Address::node(u32::try_from(number).expect("1 or 2")),
            unauthenticated: [].into(),
            clock: Duration::from_secs(1_790_000_000),
        };
        let sealing = if has_key { Sealing::Member(member) } else { Sealing::Keyless };
        let mut client = Client::new(client::Config { sealing, ..client::Config::new(SAP) });
        client.handle_connected(Time::ZERO);
        (id, client)
    });
    let mut pair = Pair { net, now: Time::ZERO, clients };
    pair.settle();
    let u_pdu = vec![0x18; octets];
    let send = client::Send {
        to: Address::node(2),
        to_sap: SAP,
        priority: 4,
        is_expedited: false,
        service: Some(Service::ARQ),
        ttl: Duration::ZERO,
        u_pdu: &u_pdu,
    };
    pair.clients[0].1.send(Time::ZERO, send).expect("the client takes it");
    let mut received = pair.settle();
    while received.is_none() {
        pair.now = pair.net.next_timeout().expect("it is under way");
        pair.net.handle_timeout(pair.now);
        received = pair.settle();
    }
    assert_eq!(received, Some(u_pdu));
    pair.now.since(Time::ZERO)
}

struct Pair {
    net: Net,
    now: Time,
    clients: [(ClientId, Client); 2],
}

impl Pair {
    /// Carries octets between clients and nodes until nothing is left; what the second client received.
    fn settle(&mut self) -> Option<Vec<u8>> {
        let (now, mut received, mut is_busy) = (self.now, None, true);
        while std::mem::take(&mut is_busy) {
            for (at, (id, client)) in self.clients.iter_mut().enumerate() {
                let station = StationId(at);
                let mut octets = Vec::new();
                if client.poll_octets(now, &mut octets) {
                    is_busy = true;
                    self.net.at(now, station, |node| node.handle_octets(now, *id, &octets));
                }
                octets.clear();
                if self.net.at(now, station, |node| node.poll_octets(now, *id, &mut octets)) {
                    is_busy = true;
                    client.handle_octets(now, &octets);
                }
                self.net.at(now, station, |node| while node.poll_event().is_some() {});
                while let Some(event) = client.poll_event() {
                    if let client::Event::Received(it) = event {
                        received = Some(it.u_pdu);
                    }
                }
            }
        }
        received
    }
}

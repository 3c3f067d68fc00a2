//! Clients of a STANAG 5066 node, and the stack behind its IP Client.

use base::time::Time;
use harness::memory::{MIB, assert_within, most_resident};
use hf::ipclient::{self, IpClient, Route};
use hf::s5066::Address;
use hf::s5066::sis::primitive::{Primitive, UnidataRequest};
use hf::s5066::sis::{ClientId, Config, Delivery, Event, Sap, Server, Service};

/// docs/protocols/s5066.md, "What a client can make a node hold": the U_PDUs, and what each takes besides.
const FLOOD: usize = 12 * MIB + 24_576 * 128;

/// docs/protocols/ipclient.md: `queue`, and what each datagram takes besides; the shortest has 28 octets.
const QUEUE: usize = (256 << 10) + (256 << 10) / 28 * 192;

/// A server with a client that is bound.
fn bound() -> (Server, ClientId) {
    let mut server = Server::new(Config::default(), Address::node(0x000a_141e));
    let client = server.handle_connected(Time::ZERO).expect("there is room");
    let service = Service::ARQ.into();
    let mut octets = Vec::new();
    Primitive::BindRequest { sap: Sap::new(9), rank: 0, service }.emit(&mut octets);
    server.handle_octets(Time::ZERO, client, &octets);
    (server, client)
}

fn request(u_pdu: &[u8], ttl: u32) -> Vec<u8> {
    let mut octets = Vec::new();
    let (to, to_sap) = (Address::node(0x000a_141f), Sap::new(9));
    let delivery = Delivery::DEFAULT;
    Primitive::UnidataRequest(UnidataRequest { priority: 0, to_sap, to, delivery, ttl, u_pdu })
        .emit(&mut octets);
    octets
}

#[test]
fn a_client_that_floods_its_node_is_closed_in_time() {
    let most = most_resident(
        "s5066::a_client_that_floods_its_node_is_closed_in_time",
        &[1, 100, 500, 2_048],
        |len| {
            let (mut server, client) = bound();
            let request = request(&vec![7; *len], 0);
            for _ in 0..100_000 {
                server.handle_octets(Time::ZERO, client, &request);
                while let Some(event) = server.poll_event() {
                    if event == Event::Close(client) {
                        return;
                    }
                }
            }
            panic!("nobody closed it");
        },
    );

    assert_within("a client of a node", most, FLOOD);
}

#[test]
fn a_queue_of_datagrams_keeps_no_more_than_is_said() {
    let most = most_resident(
        "s5066::a_queue_of_datagrams_keeps_no_more_than_is_said",
        &[28_u16, 100, 2_000],
        |len| {
            let route = Route {
                prefix: "10.0.0.0/8".parse().expect("a prefix"),
                to: Address::node(0x000a_141f),
            };
            let mut client = IpClient::new(Time::ZERO, ipclient::Config::new(vec![route]));
            // IPv4 and UDP to as many flows as there are ports.
            let mut packet = vec![0; usize::from(*len)];
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[8..10].copy_from_slice(&[64, 17]);
            packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            let words =
                packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("16 bits");
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
            for port in 0..50_000_u16 {
                packet[20..22].copy_from_slice(&port.to_be_bytes());
                client.handle_packet(Time::ZERO, &packet);
            }
            assert!(client.stats().taken.queue_full > 10_000, "{:?}", client.stats().taken);
        },
    );

    assert_within("a queue of datagrams", most, QUEUE);
}

//! Sends numbered datagrams from one node to another and counts the arrivals.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::network::{Network, address};

/// Octets of each, without headers.
pub const LEN: usize = 1_000;

/// Sockets at both ends.
pub struct Datagrams {
    senders: Vec<UdpSocket>,
    receiver: UdpSocket,
    sent: u32,
    arrived: BTreeSet<u32>,
}

impl Datagrams {
    /// From as many ports of a node to another node.
    pub fn new(network: &Network, from: usize, to: usize, flows: usize) -> Self {
        let receiver = network
            .nets
            .within(&network.nodes[to].name, || UdpSocket::bind((address(to), 0)).unwrap());
        let target = receiver.local_addr().unwrap();
        let senders = network.nets.within(&network.nodes[from].name, || {
            let open = |_| {
                let socket = UdpSocket::bind((address(from), 0)).unwrap();
                socket.connect(target).unwrap();
                socket
            };
            (0..flows).map(open).collect()
        });
        receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Self { senders, receiver, sent: 0, arrived: BTreeSet::new() }
    }

    /// Sends so many on each port.
    pub fn send(&mut self, count: u32) {
        for _ in 0..count {
            for sender in &self.senders {
                let mut datagram = [0; LEN];
                datagram[..4].copy_from_slice(&self.sent.to_be_bytes());
                self.sent += 1;
                // Ignore an error that belongs to an earlier datagram.
                let _ = sender.send(&datagram).or_else(|_| sender.send(&datagram));
            }
        }
    }

    /// How many have arrived, once all have or time is over.
    pub fn arrived(&mut self, at_most: Duration) -> u32 {
        let deadline = Instant::now() + at_most;
        let mut datagram = [0; LEN];
        while self.arrived.len() < self.sent as usize && Instant::now() < deadline {
            if self.receiver.recv(&mut datagram).is_ok() {
                let number = datagram.first_chunk().copied().unwrap();
                self.arrived.insert(u32::from_be_bytes(number));
            }
        }
        u32::try_from(self.arrived.len()).unwrap()
    }

    pub fn sent(&self) -> u32 {
        self.sent
    }
}

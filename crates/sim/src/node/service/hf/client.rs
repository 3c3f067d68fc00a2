//! Clients of a STANAG 5066 node, and their connections with it, which have no delay.

use base::time::Time;
use hf::ipclient::{self, IpClient};
use hf::s5066::sis::ClientId;

use super::Modem;
use crate::engine::Engine;

/// A client of a node's subnetwork interface.
pub trait Client {
    fn handle_connected(&mut self, now: Time);

    fn handle_disconnected(&mut self, now: Time);

    fn handle_octets(&mut self, now: Time, octets: &[u8]);

    /// Appends octets for the node; whether there were any.
    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool;

    /// Whether it has asked since the last call for the connection to be closed.
    fn take_close(&mut self) -> bool;
}

impl Client for IpClient {
    fn handle_connected(&mut self, now: Time) {
        self.handle_connected(now);
    }

    fn handle_disconnected(&mut self, now: Time) {
        self.handle_disconnected(now);
    }

    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.handle_octets(now, octets);
    }

    fn poll_octets(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.poll_octets(now, out)
    }

    fn take_close(&mut self) -> bool {
        let mut is_asked = false;
        while let Some(event) = self.poll_event() {
            is_asked |= matches!(event, ipclient::Event::Close(_));
        }
        is_asked
    }
}

/// A client and its connection.
pub struct Attached<C> {
    client: C,
    /// The node's identifier of the connection.
    connection: Option<ClientId>,
    /// On their way between client and node.
    octets: Vec<u8>,
}

impl<C: Client> Attached<C> {
    pub fn new(client: C) -> Self {
        Self { client, connection: None, octets: Vec::new() }
    }

    pub fn client(&self) -> &C {
        &self.client
    }

    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }

    /// The node is gone, and the connection with it.
    pub fn disconnect(&mut self, now: Time) {
        if self.connection.take().is_some() {
            self.client.handle_disconnected(now);
        }
    }

    /// Carries octets between client and node once; whether there may be more.
    pub fn exchange(&mut self, engine: &mut Engine, modem: &mut Modem) -> bool {
        let now = engine.now;
        let Self { client, connection, octets } = self;
        let Some(id) = *connection else {
            *connection = modem.node.handle_connected(now);
            modem.serve(engine);
            if connection.is_some() {
                client.handle_connected(now);
            }
            return connection.is_some();
        };
        octets.clear();
        let mut is_busy = client.poll_octets(now, octets);
        if is_busy {
            modem.node.handle_octets(now, id, octets);
            modem.serve(engine);
        }
        octets.clear();
        if modem.node.poll_octets(now, id, octets) {
            client.handle_octets(now, octets);
            is_busy = true;
        }
        modem.serve(engine);
        if client.take_close() | modem.take_close(id) {
            modem.node.handle_disconnected(now, id);
            modem.serve(engine);
            client.handle_disconnected(now);
            *connection = None;
            is_busy = true;
        }
        is_busy
    }
}

//! A TCP connection, with an optional TCP/NC layer below it.

use base::rng::Rng;
use base::tcp::Segment;
use base::time::Time;
use tcp::Connection;
use tcp::tcpnc::{self, Layer};

/// A connection and the layer between it and IP.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) layer: Option<Box<Layer>>,
}

/// Report of a TCP/NC layer: its statistics and estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodingReport {
    /// What happened.
    pub stats: tcpnc::Stats,
    /// The estimated loss rate, 0 to 1.
    pub loss: f64,
    /// Packets of the next coding window.
    pub window: usize,
}

impl CodingReport {
    pub(crate) fn of(layer: &Layer) -> Self {
        Self { stats: *layer.stats(), loss: layer.loss(), window: layer.window_size() }
    }
}

impl Endpoint {
    /// A connection with the layer that `config` asks for; `rng` is for layers alone.
    pub fn new(connection: Connection, config: Option<tcpnc::Config>, rng: &mut Rng) -> Self {
        let layer = config.map(|config| {
            let rng = Rng::stream(rng.bits(), "coefficients");
            Box::new(Layer::new(config, connection.local(), connection.remote(), rng))
        });
        Self { connection, layer }
    }

    /// Takes a segment that came without the layer.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment<'_>) {
        self.connection.handle_segment(now, segment);
    }

    /// Puts the next whole IP packet in place of what `out` holds; `segment` is where TCP writes for the layer.
    pub fn poll_transmit(&mut self, now: Time, segment: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
        let Some(layer) = &mut self.layer else { return self.connection.poll_transmit(now, out) };
        loop {
            if layer.poll_transmit(now, out) {
                return true;
            }
            if !self.connection.poll_transmit(now, segment) {
                return false;
            }
            layer.handle_outgoing(now, segment);
        }
    }

    /// Passes one segment from the layer up to TCP; false if the layer had none.
    pub fn take_segment(&mut self, now: Time) -> bool {
        let Some(segment) = self.layer.as_mut().and_then(|layer| layer.poll_segment(now)) else {
            return false;
        };
        self.connection.handle_segment(now, &segment);
        true
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.connection.handle_timeout(now);
        if let Some(layer) = &mut self.layer {
            layer.handle_timeout(now);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let layer = self.layer.as_ref().and_then(|layer| layer.next_timeout());
        self.connection.next_timeout().into_iter().chain(layer).min()
    }
}

//! Bounds that no protocol can beat on a chain of lossy links. `docs/results/limits.md` derives the formulas.

/// A chain of links, all alike but for their rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Bits a second of every link, from the source on.
    pub rates: Vec<f64>,
    /// Seconds that a packet travels over one link once sent.
    pub delay: f64,
    /// Octets that a link adds to each packet.
    pub framing: f64,
    /// The probability that a link loses a packet of the data direction.
    pub loss_forward: f64,
    /// The same against the data direction.
    pub loss_backward: f64,
}

/// A TCP transfer, as IP packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Octets of data.
    pub octets: u32,
    /// Octets of data in a full segment.
    pub segment: u32,
    /// Octets of IP and TCP headers with the options of every segment.
    pub headers: u32,
    /// Octets of a SYN.
    pub syn: u32,
    /// Segments that one acknowledgement answers.
    pub segments_per_ack: u32,
}

impl Transfer {
    /// Data segments.
    #[must_use]
    pub fn segments(&self) -> u32 {
        self.octets.div_ceil(self.segment)
    }

    /// Octets of all data segments as IP packets.
    fn wire_octets(&self) -> f64 {
        f64::from(self.octets) + f64::from(self.segments()) * f64::from(self.headers)
    }

    /// Octets of the last data segment as an IP packet.
    fn last(&self) -> f64 {
        f64::from(self.octets - (self.segments() - 1) * self.segment + self.headers)
    }

    /// Octets of the first data segment as an IP packet.
    fn first(&self) -> f64 {
        f64::from(self.octets.min(self.segment) + self.headers)
    }
}

/// The least expected seconds from the first SYN to the last octet of data.
#[must_use]
pub fn delay(path: &Path, transfer: &Transfer) -> f64 {
    let handshake = path.crossing(f64::from(transfer.syn), path.loss_forward)
        + path.crossing(f64::from(transfer.syn), path.loss_backward);
    handshake + data(path, transfer)
}

/// The least expected packets on all links together: data, acknowledgements, opening and closing.
#[must_use]
pub fn packets(path: &Path, transfer: &Transfer) -> f64 {
    let hops = path.rates.len() as f64;
    // With the data: SYN, the acknowledgement of SYN-ACK, that of the receiver's FIN; the sender's
    // FIN rides on the last data. Against it: SYN-ACK; the last acknowledgement is also the FIN.
    let forward = f64::from(transfer.segments() + 3);
    let backward = f64::from(transfer.segments().div_ceil(transfer.segments_per_ack) + 1);
    hops * (forward / (1.0 - path.loss_forward) + backward / (1.0 - path.loss_backward))
}

/// The least expected seconds from the first data on the first link to the last octet.
///
/// Whichever link is taken: the first segment reaches it over the links before it, all data has to
/// be sent over it, and the last segment goes on over the links behind it.
fn data(path: &Path, transfer: &Transfer) -> f64 {
    let propagation = path.rates.len() as f64 * path.delay;
    let over = |octets: f64, rates: &[f64]| -> f64 {
        rates.iter().map(|rate| path.sending(octets, 1.0, *rate, path.loss_forward)).sum()
    };
    let through = |link: usize| {
        let (before, from) = path.rates.split_at(link);
        let packets = f64::from(transfer.segments());
        over(transfer.first(), before)
            + path.sending(transfer.wire_octets(), packets, from[0], path.loss_forward)
            + over(transfer.last(), &from[1..])
    };
    propagation + (0..path.rates.len()).map(through).fold(0.0, f64::max)
}

impl Path {
    /// Expected seconds for which a link of this rate is busy with these octets, in this many packets.
    fn sending(&self, octets: f64, packets: f64, rate: f64, loss: f64) -> f64 {
        (octets + packets * self.framing) * 8.0 / rate / (1.0 - loss)
    }

    /// Expected seconds that one packet takes over all links.
    fn crossing(&self, octets: f64, loss: f64) -> f64 {
        self.rates.iter().map(|rate| self.sending(octets, 1.0, *rate, loss) + self.delay).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(loss: f64) -> Path {
        Path {
            rates: vec![300_000.0; 4],
            delay: 0.05,
            framing: 0.0,
            loss_forward: loss,
            loss_backward: loss,
        }
    }

    const TRANSFER: Transfer =
        Transfer { octets: 100_000, segment: 536, headers: 52, syn: 60, segments_per_ack: 2 };

    #[track_caller]
    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn without_loss_the_limit_is_the_sum_of_its_parts() {
        let per_octet = 8.0 / 300_000.0;
        let handshake = 2.0 * 4.0 * (60.0 * per_octet + 0.05);
        // 187 segments, each with 52 octets of headers; the first has come over three links.
        let data = (100_000.0 + 187.0 * 52.0) * per_octet;
        let pipeline = 3.0 * 588.0 * per_octet + 4.0 * 0.05;

        assert_close(delay(&chain(0.0), &TRANSFER), handshake + data + pipeline);
        assert_close(packets(&chain(0.0), &TRANSFER), 4.0 * f64::from(187 + 3 + 94 + 1));
    }

    #[test]
    fn loss_stretches_what_is_sent_but_not_what_travels() {
        let travel = 3.0 * 4.0 * 0.05;
        let clean = delay(&chain(0.0), &TRANSFER) - travel;

        assert_close(delay(&chain(0.2), &TRANSFER) - travel, clean / 0.8);
        assert_close(packets(&chain(0.2), &TRANSFER), packets(&chain(0.0), &TRANSFER) / 0.8);
    }

    #[test]
    fn the_slowest_link_decides() {
        let mut path = chain(0.0);
        path.rates[1] = 30_000.0;

        let added = delay(&path, &TRANSFER) - delay(&chain(0.0), &TRANSFER);

        let slow_data = (100_000.0 + 187.0 * 52.0) * 8.0 * (1.0 / 30_000.0 - 1.0 / 300_000.0);
        assert!(added > slow_data && added < slow_data + 0.2, "{added}, {slow_data}");
    }
}

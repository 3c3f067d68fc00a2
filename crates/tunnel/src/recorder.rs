//! Makes records of packets for a symbol, and keeps each flow in order by the source that a packet waits for.

use std::time::Duration;

use base::time::Time;

use super::headers::{Compressor, Packing, Place};
use super::parts::{Cut, LEAST_PART, Parts};
use super::queue::Popped;
use super::record::{
    ANNOUNCING, COMPRESSED, Form, PART_HEADER, RECORD_HEADER, Records, SHORT, fill_record_header,
    head,
};
use super::stats::Sent;
use super::wire::{MAX_VARINT, push_varint};

/// Flows by bucket of the queue.
const BUCKETS: usize = 1_024;

/// The source that is being filled, and the state of earlier sources.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    pub number: u64,
    /// Sources before this one are acknowledged or given up.
    pub floor: u64,
    /// The peer has reported all sources before this one as received or given up.
    pub reported: u64,
    pub rtt: Duration,
}

/// Makes records of packets.
#[derive(Debug, Default)]
pub struct Recorder {
    order: FlowOrder,
    compressor: Compressor,
    /// The cut packet, with some parts sent already.
    cut: Option<Cut>,
    /// Memory for the start of a record.
    start: Vec<u8>,
}

impl Recorder {
    /// Makes a record of the packet at the end of `symbol`, which follows [`RECORD_HEADER`] octets from
    /// `start` on. The symbol never grows longer.
    pub fn finish(
        &mut self,
        now: Time,
        popped: &Popped,
        filling: Filling,
        symbol: &mut Vec<u8>,
        start: usize,
        stats: Option<&mut Sent>,
    ) {
        let Filling { number, floor, reported, rtt } = filling;
        // A pure acknowledgement needs no order: a later one acknowledges the same data.
        let wait = if popped.is_pure_ack { 0 } else { self.order.push(popped.flow, number, floor) };
        let Some(stats) = stats.filter(|_| wait <= MAX_VARINT) else {
            fill_record_header(&mut symbol[start..], wait);
            return;
        };
        let has_room = wait <= SHORT;
        let place = Place { flow: popped.flow, source: number, floor: reported, rtt, has_room };
        let packet = &symbol[start + RECORD_HEADER..];
        match self.compressor.pack(now, place, packet) {
            Packing::Whole => fill_record_header(&mut symbol[start..], wait),
            Packing::Announces(id) => {
                let head = head(ANNOUNCING, packet.len());
                let wait = u8::try_from(wait).expect("there is room");
                symbol[start..start + RECORD_HEADER].copy_from_slice(&[head[0], head[1], wait, id]);
                stats.contexts_announced += 1;
            }
            Packing::Compressed(id, headers) => {
                let payload = start + RECORD_HEADER + headers.replaces();
                let len = headers.octets().len() + symbol.len() - payload;
                self.start.clear();
                self.start.extend_from_slice(&head(COMPRESSED, len));
                push_varint(&mut self.start, wait);
                self.start.push(id);
                self.start.extend_from_slice(headers.octets());
                let place = start + self.start.len();
                symbol[start..place].copy_from_slice(&self.start);
                symbol.copy_within(payload.., place);
                let saved = payload - place;
                symbol.truncate(symbol.len() - saved);
                stats.headers_compressed += 1;
                stats.header_octets_saved += saved as u64;
            }
        }
    }

    /// Sends `packet` in parts from now on; only one packet is cut at a time.
    pub fn begin_cut(&mut self, packet: Cut) {
        self.cut = Some(packet);
    }

    /// The cut packet, with some parts sent already.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Drops the rest of the packet that is cut; returns whether there was one.
    pub fn drop_cut(&mut self) -> bool {
        self.cut.take().is_some()
    }

    /// Appends the next part of the packet that is cut to `symbol`, of at most `max` octets; false when
    /// there is too little room.
    pub fn push_part(
        &mut self,
        Filling { number, floor, .. }: Filling,
        max: usize,
        symbol: &mut Vec<u8>,
    ) -> bool {
        let room = max - symbol.len();
        let cut = self.cut.take_if(|cut| room >= PART_HEADER + LEAST_PART.min(cut.left()));
        let Some(mut cut) = cut else { return false };
        let wait = self.order.push(cut.flow(), number, floor);
        let is_whole = cut.push_part(room, wait, symbol);
        // The other end would take no more of the packet. With all MTUs in use this never happens.
        if !is_whole && !cut.is_too_long() {
            self.cut = Some(cut);
        }
        true
    }

    /// Calls `each` with the packets of unacknowledged sources, which come with their numbers and in order, and with
    /// the packet that is cut. A packet of which a part is acknowledged already is left out.
    pub fn restore<'a>(
        self,
        sources: impl Iterator<Item = (u64, &'a [u8])>,
        mut each: impl FnMut(&[u8]),
    ) {
        let (mut parts, mut packet) = (Parts::default(), Vec::new());
        for (number, symbol) in sources {
            for record in Records::of(symbol) {
                let octets = &symbol[record.start..record.end];
                match record.form {
                    Form::Announcing(_) | Form::Whole => each(octets),
                    Form::Compressed(id) => {
                        packet.clear();
                        if self.compressor.restore(id, octets, &mut packet).is_ok() {
                            each(&packet);
                        }
                    }
                    Form::Part(part) => {
                        if let Some(joined) = parts.handle(number, part, octets) {
                            each(&joined);
                        }
                    }
                }
            }
        }
        if let Some(cut) = self.cut {
            each(&cut.into_packet());
        }
    }

    /// The peer has context `id` as announced by the source whose number ends in the 24 bits `source`.
    pub fn handle_told(&mut self, id: u8, source: u32) {
        self.compressor.handle_told(id, source);
    }
}

/// Keeps each flow in order at the other end: for each flow the source with its last packet, plus one, and the wait of
/// the packet.
#[derive(Debug)]
struct FlowOrder(Vec<(u64, u16)>);

impl Default for FlowOrder {
    fn default() -> Self {
        Self(vec![(0, 0); BUCKETS])
    }
}

impl FlowOrder {
    /// Puts a packet of `flow` into source `number`. Returns how many sources back the flow's previous
    /// packet is; 0 when there is none, or when its source is before `floor`, for which nobody waits.
    /// Behind a packet in the same source, the new packet has the same wait.
    fn push(&mut self, flow: u32, number: u64, floor: u64) -> u16 {
        let bucket = usize::try_from(flow).unwrap_or(0) % BUCKETS;
        let (last, awaited) = self.0[bucket];
        let wait = if last == number + 1 {
            awaited
        } else if last == 0 || last > number || last - 1 < floor {
            0
        } else {
            u16::try_from(number - (last - 1)).unwrap_or(0)
        };
        self.0[bucket] = (number + 1, wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use base::ip::{Spec, protocol};

    use super::*;

    /// A datagram of UDP to this port, behind room for a record's header.
    fn record(port: u8) -> Vec<u8> {
        let [source, destination] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        let mut record = vec![0; RECORD_HEADER];
        let mut packet = Vec::new();
        Spec::new(source, destination, protocol::UDP).emit(8 + 100, &mut packet);
        record.extend_from_slice(&packet);
        record.extend_from_slice(&[0, 7, 0, port, 0, 108, 0, 0]);
        record.extend_from_slice(&[0; 100]);
        record
    }

    #[test]
    fn a_context_gives_way_only_when_the_peer_said_that_nobody_waits_for_it() {
        let (mut recorder, mut stats) = (Recorder::default(), Sent::default());
        let mut finish = |seconds, number, reported, port| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            let popped =
                Popped { flow: 1, arrived: now, is_sparse: true, is_pure_ack: false, dscp: 0 };
            let filling = Filling { number, floor: number, reported, rtt: Duration::ZERO };
            recorder.finish(now, &popped, filling, &mut record(port), 0, Some(&mut stats));
            stats.contexts_announced
        };
        for port in 0..8 {
            assert_eq!(finish(1, u64::from(port), 0, port), u64::from(port) + 1);
        }

        // The sender has given up all before; the peer may still have to release some.
        assert_eq!(finish(10, 20, 5, 8), 9, "those of the sources before 5 may go");
        assert_eq!(finish(11, 21, 0, 9), 9);
        assert_eq!(finish(12, 22, 20, 10), 10);
    }

    #[test]
    fn packets_in_one_source_wait_for_the_same() {
        let mut order = FlowOrder::default();

        let waits = [(7, 10), (7, 12), (8, 12), (7, 12), (7, 13)];
        let waits = waits.map(|(flow, number)| order.push(flow, number, 10));

        assert_eq!(waits, [0, 2, 0, 2, 1]);
        assert_eq!(order.push(7, 20, 14), 0, "nobody waits for what is acknowledged");
    }
}

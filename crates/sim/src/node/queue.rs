//! The queue before a medium: chooses the next packet to send, and the packet to drop if full.
//!
//! ```text
//!  routing messages ──▶ first ─────────────────────────────┐
//!                                                          ├──▶ dequeue
//!  packets ──▶ one lane, or a lane for each flow in turns ──┘
//! ```

use std::collections::{BTreeMap, VecDeque};

use base::ip::{FlowKey, Header, protocol};
use base::serial;
use base::tcp::Flags;

use crate::engine::PacketId;
use crate::medium::{Admission, LinkAddress, Room};

/// Queue discipline: decides the order of packets, and the packet to drop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum QueueDiscipline {
    /// What came first; what finds no room is dropped.
    #[default]
    DropTail,
    /// Messages of routing protocols first. In a full queue a message replaces the packet that came last.
    /// ns-2's `PriQueue` does the same, except that it sends the newest message first.
    RoutingFirst,
    /// Messages of routing protocols first, then flows in turns (deficit round robin, Shreedhar and
    /// Varghese 1995). In a full queue a packet replaces the newest packet of the flow with the most
    /// octets.
    Fair {
        /// Octets that a flow sends in its turn; an MTU or more.
        quantum: usize,
    },
}

/// Configuration of a queue: discipline, room, and thinning of acknowledgements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    pub discipline: QueueDiscipline,
    pub room: Room,
    pub thins_acks: bool,
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub(crate) packet: PacketId,
    pub(crate) to: LinkAddress,
    pub(crate) octets: usize,
    /// Whether the packet originates at this node.
    pub(crate) is_local: bool,
    /// Whether it is a message of a routing protocol.
    pub(crate) is_routing: bool,
}

/// Outcome of enqueueing a packet.
#[derive(Clone, Copy, Debug)]
pub enum Queued {
    /// It need not wait.
    Sent,
    /// It waits.
    Taken,
    /// The queue has no room for the packet.
    Full,
    /// The packet waits, and the given packet is dropped to make room.
    Instead(Waiting),
    /// The packet waits in place of the given older acknowledgement, made redundant by it.
    Thinned(Waiting),
}

/// Packets waiting before a medium.
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// Messages of routing protocols that go before all else.
    first: VecDeque<Waiting>,
    /// All packets, or the packets of no flow if flows take turns.
    plain: Lane,
    flows: BTreeMap<FlowKey, Lane>,
    /// Lanes with packets, in the order of their turns; unused with a single lane.
    turns: VecDeque<Option<FlowKey>>,
    packets: usize,
    octets: usize,
}

/// The packets of a flow, or of all.
#[derive(Debug, Default)]
struct Lane {
    packets: VecDeque<(Waiting, Option<Ack>)>,
    octets: usize,
    /// Octets the lane may still send in this turn.
    deficit: usize,
}

/// A pure TCP acknowledgement: the segment carries nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ack {
    flow: FlowKey,
    number: u32,
}

impl Queue {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            first: VecDeque::new(),
            plain: Lane::default(),
            flows: BTreeMap::new(),
            turns: VecDeque::new(),
            packets: 0,
            octets: 0,
        }
    }

    /// Enqueues a packet with the given octets; `is_idle` tells whether the medium could send it now.
    pub fn enqueue(&mut self, waiting: Waiting, octets: &[u8], is_idle: bool) -> Queued {
        if self.admit(is_idle, waiting.octets) == Admission::Sent {
            return Queued::Sent;
        }
        if waiting.is_routing && self.limits.discipline != QueueDiscipline::DropTail {
            return self.enqueue_first(waiting);
        }
        let (key, ack) = self.classify(octets);
        if let Some(ack) = ack
            && let Some(older) = self.replace(key, ack, waiting)
        {
            return Queued::Thinned(older);
        }
        if self.has_room(waiting.octets) {
            self.push(key, waiting, ack);
            return Queued::Taken;
        }
        // The longest flow has to give way; without flows, that is the packet's own.
        let mine = self.lane(key).map_or(0, |lane| lane.octets);
        if self.quantum().is_none() || mine + waiting.octets > self.longest().1 {
            return Queued::Full;
        }
        self.displace(waiting.octets, |queue| queue.push(key, waiting, ack))
    }

    /// Removes and returns the next packet to send.
    pub fn dequeue(&mut self) -> Option<Waiting> {
        let waiting = match self.first.pop_front() {
            Some(waiting) => waiting,
            None => match self.quantum() {
                None => {
                    let (waiting, _) = self.plain.packets.pop_front()?;
                    self.plain.octets -= waiting.octets;
                    waiting
                }
                Some(quantum) => self.dequeue_in_turn(quantum)?,
            },
        };
        self.packets -= 1;
        self.octets -= waiting.octets;
        Some(waiting)
    }

    /// Takes out all that goes to a neighbour.
    pub fn recall(&mut self, to: LinkAddress) -> Vec<Waiting> {
        let mut taken = Vec::new();
        self.first.retain(|waiting| keep(&mut taken, to, *waiting));
        for lane in self.flows.values_mut().chain([&mut self.plain]) {
            let before = taken.len();
            lane.packets.retain(|(waiting, _)| keep(&mut taken, to, *waiting));
            lane.octets -= taken[before..].iter().map(|waiting| waiting.octets).sum::<usize>();
        }
        self.flows.retain(|_, lane| !lane.packets.is_empty());
        let Self { flows, plain, turns, .. } = self;
        turns.retain(|key| match key {
            None => !plain.packets.is_empty(),
            Some(flow) => flows.contains_key(flow),
        });
        self.packets -= taken.len();
        self.octets -= taken.iter().map(|waiting| waiting.octets).sum::<usize>();
        taken
    }

    pub fn len(&self) -> usize {
        self.packets
    }

    /// Puts a message of a routing protocol before all packets.
    fn enqueue_first(&mut self, waiting: Waiting) -> Queued {
        let push = |queue: &mut Self| {
            queue.first.push_back(waiting);
            queue.packets += 1;
            queue.octets += waiting.octets;
        };
        if self.has_room(waiting.octets) {
            push(self);
            return Queued::Taken;
        }
        self.displace(waiting.octets, push)
    }

    /// Does `push` if the newest packet of the longest lane makes room for so many octets.
    fn displace(&mut self, octets: usize, push: impl FnOnce(&mut Self)) -> Queued {
        let Some((key, gone, ack)) = self.pop_newest() else { return Queued::Full };
        if !self.has_room(octets) {
            self.push(key, gone, ack);
            return Queued::Full;
        }
        push(self);
        Queued::Instead(gone)
    }

    /// The lane and the acknowledgement of a packet; the octets are parsed only if the configuration needs them.
    fn classify(&self, octets: &[u8]) -> (Option<FlowKey>, Option<Ack>) {
        let is_fair = self.quantum().is_some();
        if !is_fair && !self.limits.thins_acks {
            return (None, None);
        }
        let Ok(header) = Header::parse(octets) else { return (None, None) };
        let (flow, offset) = FlowKey::of(&header, octets);
        let ack =
            if self.limits.thins_acks { Ack::of(&header, flow, offset, octets) } else { None };
        (is_fair.then_some(flow), ack)
    }

    fn quantum(&self) -> Option<usize> {
        match self.limits.discipline {
            QueueDiscipline::DropTail | QueueDiscipline::RoutingFirst => None,
            QueueDiscipline::Fair { quantum } => Some(quantum.max(1)),
        }
    }

    /// Whether a packet of so many octets may wait.
    pub fn has_room(&self, octets: usize) -> bool {
        self.admit(false, octets) == Admission::Waits
    }

    fn admit(&self, is_idle: bool, octets: usize) -> Admission {
        self.limits.room.admit(is_idle, (self.packets, self.octets), octets)
    }

    fn lane(&self, key: Option<FlowKey>) -> Option<&Lane> {
        key.map_or(Some(&self.plain), |flow| self.flows.get(&flow))
    }

    fn lane_mut(&mut self, key: Option<FlowKey>) -> Option<&mut Lane> {
        match key {
            None => Some(&mut self.plain),
            Some(flow) => self.flows.get_mut(&flow),
        }
    }

    fn push(&mut self, key: Option<FlowKey>, waiting: Waiting, ack: Option<Ack>) {
        let quantum = self.quantum();
        let lane = match key {
            None => &mut self.plain,
            Some(flow) => self.flows.entry(flow).or_default(),
        };
        if let Some(quantum) = quantum
            && lane.packets.is_empty()
        {
            lane.deficit = quantum;
            self.turns.push_back(key);
        }
        lane.octets += waiting.octets;
        lane.packets.push_back((waiting, ack));
        self.packets += 1;
        self.octets += waiting.octets;
    }

    fn dequeue_in_turn(&mut self, quantum: usize) -> Option<Waiting> {
        loop {
            let key = *self.turns.front()?;
            let lane = self.lane_mut(key)?;
            let (next, _) = lane.packets.front()?;
            if lane.deficit < next.octets {
                lane.deficit = lane.deficit.saturating_add(quantum);
                self.turns.rotate_left(1);
                continue;
            }
            let (waiting, _) = lane.packets.pop_front()?;
            lane.deficit -= waiting.octets;
            lane.octets -= waiting.octets;
            self.forget_empty(key);
            return Some(waiting);
        }
    }

    /// Ends the turns of a lane without packets.
    fn forget_empty(&mut self, key: Option<FlowKey>) {
        if self.lane(key).is_some_and(|lane| lane.packets.is_empty()) {
            self.turns.retain(|other| *other != key);
            key.map(|flow| self.flows.remove(&flow));
        }
    }

    /// Replaces the last older acknowledgement of the same flow by a new one, and returns the old packet.
    fn replace(&mut self, key: Option<FlowKey>, ack: Ack, waiting: Waiting) -> Option<Waiting> {
        let lane = self.lane_mut(key)?;
        let is_older = |(other, older): &(Waiting, Option<Ack>)| {
            let older = older.filter(|older| older.flow == ack.flow && other.to == waiting.to);
            older.is_some_and(|older| serial::is_after(ack.number, older.number))
        };
        let place = lane.packets.iter().rposition(is_older)?;
        let (older, _) = std::mem::replace(&mut lane.packets[place], (waiting, Some(ack)));
        lane.octets = lane.octets - older.octets + waiting.octets;
        self.octets = self.octets - older.octets + waiting.octets;
        Some(older)
    }

    /// The lane with the most octets.
    fn longest(&self) -> (Option<FlowKey>, usize) {
        let flows = self.flows.iter().map(|(flow, lane)| (Some(*flow), lane.octets));
        let plain = (None, self.plain.octets);
        flows.chain([plain]).max_by_key(|(_, octets)| *octets).unwrap_or(plain)
    }

    /// Takes out the newest packet of the longest lane.
    fn pop_newest(&mut self) -> Option<(Option<FlowKey>, Waiting, Option<Ack>)> {
        let (key, _) = self.longest();
        let lane = self.lane_mut(key)?;
        let (waiting, ack) = lane.packets.pop_back()?;
        lane.octets -= waiting.octets;
        self.packets -= 1;
        self.octets -= waiting.octets;
        self.forget_empty(key);
        Some((key, waiting, ack))
    }
}

impl Ack {
    fn of(header: &Header, flow: FlowKey, offset: usize, packet: &[u8]) -> Option<Self> {
        if flow.protocol != protocol::TCP || header.fragment.is_some() {
            return None;
        }
        let segment = packet.get(offset..header.total_len)?;
        let fixed = segment.first_chunk()?;
        // Flags beside ACK say more than what has arrived.
        if base::tcp::header_len(fixed) != segment.len() || fixed[13] != Flags::ACK.0 {
            return None;
        }
        let &[.., n0, n1, n2, n3] = fixed.first_chunk::<12>()?;
        Some(Self { flow, number: u32::from_be_bytes([n0, n1, n2, n3]) })
    }
}

/// Whether a packet stays in the queue; packets to neighbour `to` move to `taken`.
fn keep(taken: &mut Vec<Waiting>, to: LinkAddress, waiting: Waiting) -> bool {
    if waiting.to == to {
        taken.push(waiting);
    }
    waiting.to != to
}

#[cfg(test)]
mod tests {
    use base::ip::Spec;

    use super::*;

    #[test]
    fn messages_of_routing_go_first_and_push_the_last_packet_out() {
        let mut queue = queue(QueueDiscipline::RoutingFirst, 3, false);
        let mut packets = crate::engine::Packets::default();
        let ids: Vec<PacketId> = (0..6).map(|_| packets.add()).collect();
        let put = |queue: &mut Queue, at: usize, is_routing| {
            queue.enqueue(Waiting { is_routing, ..waiting(ids[at], 100) }, &[], false)
        };

        for (at, is_routing) in [(0, false), (1, false), (2, true)] {
            assert!(matches!(put(&mut queue, at, is_routing), Queued::Taken));
        }
        assert!(matches!(put(&mut queue, 3, true), Queued::Instead(it) if it.packet == ids[1]));
        assert!(matches!(put(&mut queue, 4, false), Queued::Full));

        assert_eq!(drain(&mut queue), [2, 3, 0].map(|at: usize| ids[at]));
    }

    #[test]
    fn flows_take_turns_by_octets_and_the_longest_gives_way() {
        let mut queue = queue(QueueDiscipline::Fair { quantum: 1_000 }, 8, false);
        let mut packets = crate::engine::Packets::default();
        let ids: Vec<PacketId> = (0..9).map(|_| packets.add()).collect();
        // The queue is full after three packets with 1,000 octets from one flow and five with 500 from another.
        for (at, id) in ids[..8].iter().enumerate() {
            let (port, len) = if at < 3 { (1, 1_000) } else { (2, 500) };
            let taken = queue.enqueue(waiting(*id, len), &segment(port, 0, 0x10, 100), false);
            assert!(matches!(taken, Queued::Taken));
        }

        // A third flow finds room at the cost of the first, which has most.
        let third = queue.enqueue(waiting(ids[8], 100), &segment(3, 0, 0x10, 100), false);

        assert!(matches!(third, Queued::Instead(it) if it.packet == ids[2]));
        let order = [0, 3, 4, 8, 1, 5, 6, 7].map(|at: usize| ids[at]);
        assert_eq!(drain(&mut queue), order);
        assert_eq!((queue.len(), queue.octets, queue.turns.len()), (0, 0, 0));
    }

    #[test]
    fn an_acknowledgement_takes_the_place_of_an_older_one() {
        let mut packets = crate::engine::Packets::default();
        let ids: Vec<PacketId> = (0..8).map(|_| packets.add()).collect();
        let all = [
            segment(1, 1_000, 0x10, 0), // takes the place of none
            segment(1, 1_000, 0x10, 9), // has payload
            segment(2, 5_000, 0x10, 0), // another flow
            segment(1, 1_000, 0x10, 0), // a duplicate says that something is missing
            segment(1, 2_000, 0x11, 0), // a FIN
            segment(1, 2_000, 0x10, 0), // goes where the duplicate was
            segment(1, 1_500, 0x10, 0), // older than that, and newer than the first: takes its place
            segment(2, 4_999, 0x10, 0), // an old one that was late
        ];
        for thins_acks in [false, true] {
            let mut queue = queue(QueueDiscipline::DropTail, 50, thins_acks);

            let thinned = ids.iter().zip(&all).filter(|(id, octets)| {
                matches!(queue.enqueue(waiting(**id, 40), octets, false), Queued::Thinned(_))
            });

            assert_eq!(thinned.count(), if thins_acks { 2 } else { 0 });
            let order: &[usize] =
                if thins_acks { &[6, 1, 2, 5, 4, 7] } else { &[0, 1, 2, 3, 4, 5, 6, 7] };
            assert_eq!(drain(&mut queue), order.iter().map(|at| ids[*at]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_goes_to_a_neighbour_can_be_taken_out() {
        let mut packets = crate::engine::Packets::default();
        let port = |number| LinkAddress::Port(crate::ids::PortId(number));
        for discipline in [QueueDiscipline::DropTail, QueueDiscipline::Fair { quantum: 100 }] {
            let mut queue = queue(discipline, 50, false);
            let ids: Vec<PacketId> = (0..6).map(|_| packets.add()).collect();
            for (at, id) in (0_u16..).zip(&ids) {
                let waiting = Waiting { to: port(u32::from(at) % 2), ..waiting(*id, 10) };
                assert!(matches!(
                    queue.enqueue(waiting, &segment(at % 3, 0, 0x10, 1), false),
                    Queued::Taken
                ));
            }

            let mut taken = queue.recall(port(1));

            taken.sort_by_key(|it| ids.iter().position(|id| *id == it.packet));
            assert_eq!(
                taken.iter().map(|it| it.packet).collect::<Vec<_>>(),
                [ids[1], ids[3], ids[5]]
            );
            assert_eq!((queue.len(), queue.octets), (3, 30));
            assert_eq!(drain(&mut queue).len(), 3);
        }
    }

    fn queue(discipline: QueueDiscipline, packets: usize, thins_acks: bool) -> Queue {
        Queue::new(Limits { discipline, room: Room { packets, octets: usize::MAX }, thins_acks })
    }

    fn waiting(packet: PacketId, octets: usize) -> Waiting {
        Waiting { packet, to: LinkAddress::Broadcast, octets, is_local: true, is_routing: false }
    }

    fn drain(queue: &mut Queue) -> Vec<PacketId> {
        std::iter::from_fn(|| queue.dequeue()).map(|waiting| waiting.packet).collect()
    }

    /// A TCP segment from this port.
    fn segment(port: u16, ack: u32, flags: u8, payload: usize) -> Vec<u8> {
        let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut packet = Vec::new();
        Spec::new(a, b, protocol::TCP).emit(20 + payload, &mut packet);
        packet.extend(port.to_be_bytes());
        packet.extend([0; 6]);
        packet.extend(ack.to_be_bytes());
        packet.extend([5 << 4, flags, 0, 0, 0, 0, 0, 0]);
        packet.resize(packet.len() + payload, 0);
        packet
    }
}

//! The sending side: chooses the context that a packet is compressed beside, and when one is announced.

use std::time::Duration;

use base::ip::V6_HEADER;
use base::serial::low24;
use base::time::Time;

use super::CONTEXTS;
use super::coding::{Base, Headers, NoContext, Shape};

/// The number of contexts searched for a flow's contexts.
const WAYS: usize = 8;
/// A flow's contexts are announced no faster than this, whatever its packets look like; and no faster than once in
/// two round trips, because an answer that has not come by then is lost.
const PAUSE: Duration = Duration::from_secs(1);
/// A context is announced anew after this time, so that no fault lasts.
const LIFE: Duration = Duration::from_secs(60);

/// The contexts of one direction, where packets are compressed.
#[derive(Debug, Default)]
pub struct Compressor {
    /// By number; empty until the first packet.
    contexts: Vec<Option<Context>>,
}

#[derive(Debug)]
struct Context {
    base: Base,
    /// The source that announces the context, and the time of its sending.
    source: u64,
    announced_at: Time,
    is_acknowledged: bool,
    /// The newest source with a packet that needs the context, and the time of its sending.
    used_in: u64,
    used_at: Time,
}

/// How a packet is carried.
#[derive(Clone, Copy, Debug)]
pub enum Packing {
    /// Whole, and announces this context.
    Announces(u8),
    /// Compressed beside this context.
    Compressed(u8, Headers),
    /// Whole.
    Whole,
}

/// The place of a packet in what is sent.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The same for all packets of a flow, and seldom for those of another.
    pub flow: u32,
    /// The source that carries it.
    pub source: u64,
    /// All sources before this number are released or given up, as reported by the peer.
    pub floor: u64,
    /// The round trip.
    pub rtt: Duration,
    /// Whether an announcement is no longer than the packet alone would be.
    pub has_room: bool,
}

impl Compressor {
    /// Says how to carry an inner packet. It is carried so: contexts are counted as announced and used.
    pub fn pack(&mut self, now: Time, place: Place, packet: &[u8]) -> Packing {
        let Some(shape) = Shape::of(packet) else { return Packing::Whole };
        if self.contexts.is_empty() {
            self.contexts.resize_with(CONTEXTS, || None);
        }
        let first = usize::try_from(place.flow).unwrap_or(0) % (CONTEXTS / WAYS) * WAYS;
        let own = Own::among(&self.contexts[first..first + WAYS], packet, shape);
        let coded = own.acknowledged.and_then(|way| {
            let context = self.contexts[first + way].as_ref()?;
            let coded = context.base.code(packet, shape)?;
            Some((way, coded, coded.is_far() || context.announced_at + LIFE <= now))
        });
        let (is_wanted, compressed) = match coded {
            Some((way, coded, is_worn)) => (is_worn, Some((way, coded))),
            None => (true, None),
        };
        if is_wanted
            && place.has_room
            && shape.is_like_others(packet)
            && own.newest.is_none_or(|at| at + PAUSE.max(2 * place.rtt) <= now)
            && let Some(way) = self.spare(first, own.acknowledged, place.floor, now)
        {
            self.contexts[first + way] = Some(Context {
                base: Base::of(packet, shape),
                source: place.source,
                announced_at: now,
                is_acknowledged: false,
                used_in: place.source,
                used_at: now,
            });
            return Packing::Announces(number(first + way));
        }
        let Some((way, coded)) = compressed else { return Packing::Whole };
        if let Some(context) = &mut self.contexts[first + way] {
            context.used_in = place.source;
            context.used_at = now;
        }
        Packing::Compressed(number(first + way), coded)
    }

    /// The peer has context `id` as announced by the source whose number ends in the 24 bits `source`.
    pub fn handle_told(&mut self, id: u8, source: u32) {
        let context = self.contexts.get_mut(usize::from(id)).and_then(Option::as_mut);
        if let Some(context) = context.filter(|context| low24(context.source) == source) {
            context.is_acknowledged = true;
        }
    }

    /// Appends to `out` a packet compressed beside context `id` in a source that is not acknowledged: no other context
    /// has taken that place since.
    ///
    /// # Errors
    /// When the octets are not of that context; `out` is then unchanged.
    pub fn restore(&self, id: u8, octets: &[u8], out: &mut Vec<u8>) -> Result<(), NoContext> {
        let context = self.contexts.get(usize::from(id)).and_then(Option::as_ref);
        context.ok_or(NoContext)?.base.restore(octets, out)
    }

    /// A place for a context: an empty place, or the place of the context unused for longest. No packet
    /// that needs the old context may still come to the peer.
    fn spare(&self, first: usize, in_use: Option<usize>, floor: u64, now: Time) -> Option<usize> {
        let ways = self.contexts[first..first + WAYS].iter().enumerate();
        let spare = ways.filter_map(|(way, context)| match context {
            None => Some((None, way)),
            Some(context) => {
                let is_past = context.used_in < floor && context.used_at + PAUSE <= now;
                (is_past && Some(way) != in_use).then_some((Some(context.used_at), way))
            }
        });
        spare.min().map(|(_, way)| way)
    }
}

/// The contexts of a packet's flow.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// The newest context acknowledged by the peer.
    acknowledged: Option<usize>,
    /// When the newest context was announced.
    newest: Option<Time>,
}

impl Own {
    fn among(contexts: &[Option<Context>], packet: &[u8], shape: Shape) -> Self {
        let mut own = Self::default();
        let mut newest_source = 0;
        for (way, context) in contexts.iter().enumerate() {
            let Some(context) = context else { continue };
            if !context.base.is_of_flow(packet, shape) {
                continue;
            }
            own.newest = own.newest.max(Some(context.announced_at));
            if context.is_acknowledged && context.source >= newest_source {
                newest_source = context.source;
                own.acknowledged = Some(way);
            }
        }
        own
    }
}

fn number(place: usize) -> u8 {
    u8::try_from(place).expect("below 256")
}

const _: () = assert!(CONTEXTS == 256 && V6_HEADER == 40, "numbers of contexts are octets");

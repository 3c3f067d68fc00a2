//! The receiving side: keeps the contexts that the peer has announced, and restores headers.

use std::collections::VecDeque;

use super::CONTEXTS;
use super::coding::{Base, NoContext, Shape};

/// In how many reports the peer is told that a context is here: any one may be lost.
const TELLINGS: u8 = 3;

/// The contexts of one direction at the receiving end, where packets are restored.
#[derive(Debug, Default)]
pub struct Decompressor {
    /// By number; empty until one is announced.
    contexts: Vec<Option<Context>>,
    /// Contexts to tell the peer of, and how often.
    untold: VecDeque<(u8, u8)>,
}

#[derive(Debug)]
struct Context {
    base: Base,
    /// The source that announced it.
    source: u64,
}

impl Decompressor {
    /// Takes the whole packet in this source that announces context `id`.
    ///
    /// A source that comes late says nothing against a newer one.
    pub fn handle_announcement(&mut self, source: u64, id: u8, packet: &[u8]) {
        let Some(shape) = Shape::of(packet) else { return };
        if self.contexts.is_empty() {
            self.contexts.resize_with(CONTEXTS, || None);
        }
        let context = &mut self.contexts[usize::from(id)];
        if context.as_ref().is_some_and(|known| known.source > source) {
            return;
        }
        *context = Some(Context { base: Base::of(packet, shape), source });
        self.untold.retain(|&(told, _)| told != id);
        self.untold.push_back((id, TELLINGS));
    }

    /// Appends to `out` the packet that was compressed to these octets, in this source, beside context `id`.
    ///
    /// # Errors
    /// When the context is not known, or is another one by now; `out` is then unchanged.
    pub fn restore(
        &self,
        source: u64,
        id: u8,
        octets: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NoContext> {
        let context = self.contexts.get(usize::from(id)).and_then(Option::as_ref);
        let context = context.filter(|known| known.source < source).ok_or(NoContext)?;
        context.base.restore(octets, out)
    }

    /// At most `count` contexts to tell the peer of, each with the source that announced it.
    pub fn poll_told(&mut self, count: usize) -> Vec<(u8, u64)> {
        let count = count.min(self.untold.len());
        let taken: Vec<_> = self.untold.drain(..count).collect();
        let again = taken.iter().map(|&(id, tellings)| (id, tellings - 1));
        self.untold.extend(again.filter(|&(_, tellings)| tellings > 0));
        let source = |id: u8| self.contexts[usize::from(id)].as_ref().map_or(0, |it| it.source);
        taken.iter().map(|&(id, _)| (id, source(id))).collect()
    }
}

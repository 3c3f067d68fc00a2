//! Frames on the media, thinned where there are too many.

use base::time::Time;

/// Frames on the media, in order of their beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frames {
    /// What is shown.
    pub shown: Vec<Frame>,
    /// About one frame in 2 to the power of this number is shown.
    pub thinned: u32,
    /// How many there were.
    pub total: u64,
}

/// A packet on its way over a medium.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// When it began.
    pub start: Time,
    /// When the frame arrived, or its sender was done with it.
    pub end: Time,
    /// Who sent it.
    pub from: usize,
    /// Whom it was for; `None` where it was for all.
    pub to: Option<usize>,
    /// What it is for.
    pub kind: Kind,
    /// The frame's flow, and whether the frame travels back to the flow's sender.
    pub flow: Option<(usize, bool)>,
    /// Whether it reached nobody.
    pub is_lost: bool,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Traffic.
    Data,
    /// Acknowledgements of TCP.
    Ack,
    /// What finds routes and neighbours.
    Routing,
    /// What is said from hop to hop: acknowledgements of HBH, and control frames of a MAC.
    Hop,
    /// Anything else.
    Other,
}

impl Frames {
    /// Takes a frame that began no earlier than those before it; at most `limit` are kept.
    pub fn add(&mut self, frame: Frame, limit: usize) {
        let place = self.total;
        self.total += 1;
        if lot(place) < self.thinned {
            return;
        }
        self.shown.push(frame);
        if self.shown.len() > limit {
            self.thin();
        }
    }

    /// Counts frames that nobody has seen.
    pub fn miss(&mut self, frames: u64) {
        self.total += frames;
    }

    /// Shows half as many.
    pub fn thin(&mut self) {
        self.thinned += 1;
        let mut place = 0;
        // The frames are counted among those shown: which of them stay is left to chance, though to
        // the same in every run, because every second of RTS, CTS, data and acknowledgement would be
        // only requests and data.
        self.shown.retain(|_| {
            place += 1;
            lot(place) > 0
        });
    }
}

/// A number that is at least `n` for one in 2 to the power of `n` places, in no order.
fn lot(place: u64) -> u32 {
    let mixed = (place ^ place >> 33).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_frames_are_thinned_evenly_and_without_a_pattern() {
        let mut frames = Frames::default();

        for n in 0_u64..20_000 {
            // Four kinds by turns, as a MAC has them.
            let kind =
                [Kind::Hop, Kind::Ack, Kind::Data, Kind::Other][usize::try_from(n % 4).unwrap()];
            let at = Time::from_nanos(n);
            let (from, to, flow) = (0, None, None);
            let frame = Frame { start: at, end: at, from, to, kind, flow, is_lost: false };
            frames.add(frame, 1_000);
        }

        assert!((500..=1_000).contains(&frames.shown.len()), "{}", frames.shown.len());
        assert_eq!((frames.thinned, frames.total), (5, 20_000));
        for kind in [Kind::Hop, Kind::Ack, Kind::Data, Kind::Other] {
            let shown = frames.shown.iter().filter(|frame| frame.kind == kind).count();
            assert!((100..=220).contains(&shown), "{kind:?}: {shown}");
        }
        for quarter in 0..4 {
            let part = Time::from_nanos(quarter * 5_000)..Time::from_nanos((quarter + 1) * 5_000);
            let shown = frames.shown.iter().filter(|frame| part.contains(&frame.start)).count();
            assert!((100..=220).contains(&shown), "{quarter}: {shown}");
        }
    }
}

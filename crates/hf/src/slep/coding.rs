//! Compression of a direction: DEFLATE over all that is coded in it, where it helps.
//!
//! ```text
//!  coded part:  +------------+----------------- - -
//!               | f | coding | octets of one DEFLATE stream       coding: 7 bits
//!               +------------+----------------- - -
//! ```
//!
//! `f` says that the octets 00 00 ff ff, with which a flush ends, follow and are left out. The coding is 1, or 2
//! for a stream that may point back to the [dictionary](DICTIONARY) as to earlier data.

use std::collections::VecDeque;
use std::sync::LazyLock;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What the programs of small exchanges say, the most frequent last: lines that end with CR LF. It is never
/// changed: another one would be another coding.
static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let lines = include_str!("dictionary.txt").lines();
    lines.flat_map(|line| [line.as_bytes(), b"\r\n"]).flatten().copied().collect()
});

/// What a direction is coded with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Coding {
    Plain,
    WithDictionary,
}

impl Coding {
    fn number(self) -> u8 {
        match self {
            Self::Plain => 1,
            Self::WithDictionary => 2,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Plain, Self::WithDictionary].into_iter().find(|coding| coding.number() == number)
    }
}

const FLUSHED: u8 = 0x80;
/// How a flush ends (RFC 7692, 7.2.1, leaves it out as well).
const TRAILER: [u8; 4] = [0, 0, 0xff, 0xff];
/// Octets compressed as a sample to judge whether compression helps.
const SAMPLE: usize = 4_096;
/// Octets sent as they are before compression is tried again, or compressed before it is judged again.
const STRETCH: usize = 64 << 10;
/// Too few octets to predict how well later data compresses.
const FEW: usize = 512;
/// Octets decoded at once.
const STEP: usize = 16 << 10;
/// States that are kept for coders to come.
const MOST_SPARES: usize = 16;

/// Spare states of coders. They are some 300 kB each: given back to the heap one after the
/// other, among all that is small and stays, they would leave it full of holes too small for the next.
#[derive(Debug, Default)]
pub struct Spares {
    coders: Vec<Compress>,
    /// What only judges.
    judge: Option<Compress>,
}

impl Spares {
    fn take(&mut self) -> Compress {
        let new = || Compress::new(Compression::default(), false);
        self.coders.pop().unwrap_or_else(new)
    }

    fn give(&mut self, mut coder: Compress) {
        if self.coders.len() < MOST_SPARES {
            coder.reset();
            self.coders.push(coder);
        }
    }

    /// How many octets a sample has when it is coded; `None` if it cannot be.
    fn judge(&mut self, sample: &[u8], coding: Coding) -> Option<usize> {
        let new = || Compress::new(Compression::fast(), false);
        let judge = self.judge.get_or_insert_with(new);
        judge.reset();
        if coding == Coding::WithDictionary {
            judge.set_dictionary(&DICTIONARY).ok()?;
        }
        let mut coded = vec![0; sample.len() + 64];
        judge.compress(sample, &mut coded, FlushCompress::Sync).ok()?;
        usize::try_from(judge.total_out()).ok()
    }
}

/// The compressing end of a direction.
#[derive(Debug)]
pub struct Coder {
    /// Made when it is first needed: it is large.
    deflate: Option<Compress>,
    /// Coded, and in no part yet.
    pending: VecDeque<u8>,
    /// Whether what is pending ends with a flush.
    is_flushed: bool,
    mode: Mode,
    coding: Coding,
    /// Whether anything is coded: the coding stays then.
    has_begun: bool,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Coding { fed: usize, made: usize },
    Raw { left: usize },
}

impl Coder {
    pub fn new() -> Self {
        let mode = Mode::Raw { left: 0 };
        Self {
            deflate: None,
            pending: VecDeque::new(),
            is_flushed: false,
            mode,
            coding: Coding::Plain,
            has_begun: false,
        }
    }

    /// One that goes on where another was given up.
    pub fn resumed(coding: Coding) -> Self {
        Self { coding, has_begun: true, ..Self::new() }
    }

    /// How the direction is coded, if anything is.
    pub fn begun(&self) -> Option<Coding> {
        self.has_begun.then_some(self.coding)
    }

    /// The best coding that the other end takes; a direction that has begun keeps its own.
    pub fn offer(&mut self, coding: Coding) {
        if !self.has_begun {
            self.coding = coding;
        }
    }

    /// Octets that are coded and in no part yet.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether it has what is costly to keep.
    pub fn is_large(&self) -> bool {
        self.deflate.is_some()
    }

    /// Whether the next octets may make it large.
    pub fn may_grow(&self) -> bool {
        !self.is_large() && !matches!(self.mode, Mode::Raw { left: 1.. })
    }

    /// Takes octets for a part of at most `room` octets, at least 2; whether they are coded. The coder
    /// allocates its large state only if permitted.
    pub fn cut(
        &mut self,
        unsent: &mut VecDeque<u8>,
        room: usize,
        may_grow: bool,
        spares: &mut Spares,
    ) -> (Vec<u8>, bool) {
        if !may_grow && !self.is_large() {
            return (take(unsent, room.min(unsent.len())), false);
        }
        if self.pending.is_empty() {
            self.judge(unsent, spares);
            if let Mode::Raw { left } = &mut self.mode {
                let len = room.min(unsent.len()).min((*left).max(1));
                *left = left.saturating_sub(len);
                return (take(unsent, len), false);
            }
        }
        self.fill(unsent, room - 1, spares);
        let is_end = self.is_flushed && self.pending.len() - TRAILER.len() < room;
        let len = if is_end { self.pending.len() - TRAILER.len() } else { room - 1 };
        let mut data = Vec::with_capacity(len + 1);
        data.push(self.coding.number() | if is_end { FLUSHED } else { 0 });
        append(&mut self.pending, len, &mut data);
        if is_end {
            self.pending.clear();
            self.is_flushed = false;
        }
        (data, true)
    }

    /// Decides how the next octets go.
    fn judge(&mut self, unsent: &VecDeque<u8>, spares: &mut Spares) {
        match self.mode {
            Mode::Coding { fed, made } if fed < STRETCH || made <= fed / 20 * 19 => {
                if fed >= STRETCH {
                    self.mode = Mode::Coding { fed: 0, made: 0 };
                }
            }
            Mode::Raw { left } if left > 0 => {}
            Mode::Coding { .. } | Mode::Raw { .. } => {
                let sample: Vec<u8> = unsent.iter().take(SAMPLE).copied().collect();
                let coding = if self.has_begun { Coding::Plain } else { self.coding };
                let made = spares.judge(&sample, coding);
                self.mode = if made.is_some_and(|made| made <= sample.len() / 20 * 19) {
                    Mode::Coding { fed: 0, made: 0 }
                } else {
                    let left = if sample.len() < FEW { sample.len() } else { STRETCH };
                    Mode::Raw { left }
                };
            }
        }
    }

    /// Codes until there is enough for a part, or all is coded and flushed.
    fn fill(&mut self, unsent: &mut VecDeque<u8>, enough: usize, spares: &mut Spares) {
        // The other end knows the earlier data; a coder that begins in the midst does not: that
        // points back to neither it nor the dictionary.
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let deflate = self.deflate.get_or_insert_with(|| spares.take());
        if is_first && self.coding == Coding::WithDictionary {
            let set = deflate.set_dictionary(&DICTIONARY);
            debug_assert!(set.is_ok(), "a coder that has said nothing takes a dictionary");
        }
        let mut out = vec![0; STEP];
        while self.pending.len() <= enough + TRAILER.len() && !self.is_flushed {
            let is_all = unsent.as_slices().1.is_empty();
            let input = unsent.as_slices().0;
            let input = &input[..input.len().min(STEP)];
            let is_last = is_all && input.len() == unsent.len();
            let flush = if is_last { FlushCompress::Sync } else { FlushCompress::None };
            let (before_in, before_out) = (deflate.total_in(), deflate.total_out());
            let status = deflate.compress(input, &mut out, flush);
            let fed = usize::try_from(deflate.total_in() - before_in).unwrap_or_default();
            let made = usize::try_from(deflate.total_out() - before_out).unwrap_or_default();
            self.pending.extend(&out[..made]);
            unsent.drain(..fed);
            if let Mode::Coding { fed: all_fed, made: all_made } = &mut self.mode {
                *all_fed += fed;
                *all_made += made;
            }
            // A flush is over when it leaves room in the output.
            self.is_flushed = is_last && unsent.is_empty() && made < out.len();
            if status.is_err() {
                return;
            }
        }
    }

    /// Gives back what is costly to keep, unless octets wait in it; whether it has none now. Data coded
    /// later can then not point back to earlier data.
    pub fn rest(&mut self, spares: &mut Spares) -> bool {
        if self.pending.is_empty() {
            self.end(spares);
        }
        !self.is_large()
    }

    /// Gives back what is costly to keep: nothing is coded any more, or nothing of what was.
    pub fn end(&mut self, spares: &mut Spares) {
        self.pending = VecDeque::new();
        if let Some(coder) = self.deflate.take() {
            spares.give(coder);
        }
    }
}

/// The other end.
#[derive(Debug)]
pub struct Decoder(Box<Decompress>);

/// The error for octets not produced by a [`Coder`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Undecodable;

impl Decoder {
    pub fn new(coding: Coding) -> Self {
        let mut inflate = Decompress::new(false);
        if coding == Coding::WithDictionary {
            let set = inflate.set_dictionary(&DICTIONARY);
            debug_assert!(set.is_ok(), "a decoder that has heard nothing takes a dictionary");
        }
        Self(Box::new(inflate))
    }

    /// What of a coded part is to be decoded, and how.
    pub fn open(data: &[u8]) -> Result<(Coding, Box<[u8]>), Undecodable> {
        let (&head, octets) = data.split_first().ok_or(Undecodable)?;
        let coding = Coding::of(head & !FLUSHED).ok_or(Undecodable)?;
        let trailer = if head & FLUSHED != 0 { &TRAILER[..] } else { &[] };
        Ok((coding, [octets, trailer].concat().into()))
    }

    /// Appends at most `most` octets to `out`; returns how many octets of `input` it took, and
    /// whether there is nothing more in them.
    pub fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        most: usize,
    ) -> Result<(usize, bool), Undecodable> {
        let (mut taken, mut left) = (0, most);
        let mut buffer = [0; STEP];
        while left > 0 {
            let room = left.min(STEP);
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let flush = FlushDecompress::None;
            let status = self.0.decompress(&input[taken..], &mut buffer[..room], flush);
            let fed = usize::try_from(self.0.total_in() - before_in).unwrap_or_default();
            let made = usize::try_from(self.0.total_out() - before_out).unwrap_or_default();
            taken += fed;
            left -= made;
            out.extend_from_slice(&buffer[..made]);
            match status {
                Ok(Status::Ok | Status::BufError) if made < room => {
                    return if taken == input.len() {
                        Ok((taken, true))
                    } else if fed == 0 && made == 0 {
                        Err(Undecodable)
                    } else {
                        continue;
                    };
                }
                Ok(Status::Ok) => {}
                // A direction never ends its DEFLATE stream.
                Ok(Status::BufError | Status::StreamEnd) | Err(_) => return Err(Undecodable),
            }
        }
        Ok((taken, false))
    }
}

/// The data of a datagram as one DEFLATE stream, if the stream is shorter.
pub fn deflate(data: &[u8]) -> Option<Vec<u8>> {
    // A stream too long for the buffer is not shorter.
    let mut out = vec![0; data.len().checked_sub(1)?];
    let mut coder = Compress::new(Compression::best(), false);
    let status = coder.compress(data, &mut out, FlushCompress::Finish).ok()?;
    out.truncate(usize::try_from(coder.total_out()).ok()?);
    (status == Status::StreamEnd).then_some(out)
}

/// Decodes what is one DEFLATE stream, if it has at most so many octets then.
pub fn inflate(data: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut decoder = Decompress::new(false);
    let mut out = Vec::new();
    let mut buffer = [0; STEP];
    loop {
        let taken = usize::try_from(decoder.total_in()).ok()?;
        let status = decoder.decompress(data.get(taken..)?, &mut buffer, FlushDecompress::Finish);
        let made = usize::try_from(decoder.total_out()).ok()? - out.len();
        out.extend_from_slice(&buffer[..made]);
        let is_whole = usize::try_from(decoder.total_in()).ok()? == data.len();
        match status {
            _ if out.len() > most => return None,
            Ok(Status::StreamEnd) => return is_whole.then_some(out),
            Ok(Status::Ok | Status::BufError) if made > 0 => {}
            Ok(Status::Ok | Status::BufError) | Err(_) => return None,
        }
    }
}

fn take(octets: &mut VecDeque<u8>, len: usize) -> Vec<u8> {
    let mut taken = Vec::with_capacity(len);
    append(octets, len, &mut taken);
    taken
}

/// Moves the first octets to `out`.
pub fn append(octets: &mut VecDeque<u8>, len: usize, out: &mut Vec<u8>) {
    let (front, back) = octets.as_slices();
    let of_front = len.min(front.len());
    out.extend_from_slice(&front[..of_front]);
    out.extend_from_slice(&back[..len - of_front]);
    octets.drain(..len);
}

#[cfg(test)]
mod tests;

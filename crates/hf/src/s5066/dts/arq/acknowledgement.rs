//! Acknowledgements from receiver to sender: the lower edge of the window, and the frames received beyond.

use std::collections::VecDeque;

use crate::s5066::dts::wire::{
    self, Ack, Body, Coding, CpduSegment, Fsn, LongAck, MAX_BITMAP, Numbers, Run,
};

/// An acknowledgement to be sent (Annex C, section 3.4; with long numbers, ours).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Acknowledgement {
    numbers: Numbers,
    lwe: Fsn,
    list: List,
    octets: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum List {
    InHeader,
    Segment { base: Fsn, is_last: bool, coding: Coding },
}

impl Acknowledgement {
    /// An acknowledgement that fits a header: `arrived` describes the frames from `lower` on.
    pub(crate) fn bitmap(numbers: Numbers, lower: u64, arrived: &VecDeque<bool>) -> Self {
        let mut octets = Vec::new();
        for (index, has_arrived) in arrived.iter().skip(1).take(8 * MAX_BITMAP).enumerate() {
            octets.resize(index / 8 + 1, 0);
            octets[index / 8] |= u8::from(*has_arrived) << (index % 8);
        }
        Self { numbers, lwe: numbers.fsn(lower), list: List::InHeader, octets }
    }

    /// Those with long numbers that tell of all frames from `lower` to the newest, in the shorter of
    /// both codings; their lists have at most `limit` octets.
    pub(crate) fn lists(lower: u64, arrived: &VecDeque<bool>, limit: usize) -> Vec<Self> {
        let numbers = Numbers::Long;
        let mut runs: Vec<Run> = Vec::new();
        for &has_arrived in arrived.iter().skip(1) {
            match runs.last_mut().filter(|run| run.has_arrived == has_arrived) {
                Some(run) => run.len += 1,
                None => runs.push(Run { has_arrived, len: 1 }),
            }
        }
        let as_runs: usize = runs.iter().map(|run| wire::length_octets(run.len)).sum();
        let as_bits = arrived.len().saturating_sub(1).div_ceil(8);
        let mut lists = if as_runs <= as_bits {
            run_lists(&runs, limit)
        } else {
            bit_lists(arrived.iter().skip(1), limit)
        };
        if lists.is_empty() {
            lists.push((0, Coding::Bitmap, Vec::new()));
        }
        let last = lists.len() - 1;
        let ack = |(index, (start, coding, octets))| {
            let base = numbers.fsn(lower + 1 + u64::from(start));
            let list = List::Segment { base, is_last: index == last, coding };
            Self { numbers, lwe: numbers.fsn(lower), list, octets }
        };
        lists.into_iter().enumerate().map(ack).collect()
    }

    /// The frame that says it: of type 1 or 10.
    #[must_use]
    pub fn body(&self) -> Body<'_> {
        match self.list {
            List::InHeader => Body::Ack { is_expedited: false, ack: self.in_header() },
            List::Segment { base, is_last, coding } => {
                let list = CpduSegment::new(&self.octets);
                Body::LongAck(LongAck { lwe: self.lwe, base, is_last, coding, list })
            }
        }
    }

    /// Octets of its list.
    #[must_use]
    pub fn size(&self) -> usize {
        self.octets.len()
    }

    /// The acknowledgement for the header of a data frame; only the lower edge if there is a list.
    #[must_use]
    pub fn in_header(&self) -> Ack<'_> {
        match self.list {
            List::InHeader => Ack { lwe: self.lwe, bitmap: &self.octets },
            List::Segment { .. } => Ack { lwe: self.lwe, bitmap: &[] },
        }
    }
}

/// Where a list starts, counted from the one after the lower edge, how it is written, the list.
type PlacedList = (u32, Coding, Vec<u8>);

fn run_lists(runs: &[Run], limit: usize) -> Vec<PlacedList> {
    let mut lists: Vec<PlacedList> = Vec::new();
    let mut at = 0;
    for run in runs {
        // A list begins with missing frames; an empty run stands for none.
        let needed = wire::length_octets(run.len);
        match lists.last_mut().filter(|(_, _, list)| list.len() + needed <= limit) {
            Some((_, _, list)) => wire::emit_length(run.len, list),
            None => {
                let mut list = Vec::new();
                if run.has_arrived {
                    wire::emit_length(0, &mut list);
                }
                wire::emit_length(run.len, &mut list);
                lists.push((at, Coding::Runs, list));
            }
        }
        at += run.len;
    }
    lists
}

fn bit_lists<'a>(arrived: impl Iterator<Item = &'a bool>, limit: usize) -> Vec<PlacedList> {
    let mut lists: Vec<PlacedList> = Vec::new();
    for (at, has_arrived) in (0_u32..).zip(arrived) {
        let bit = at % 8;
        let is_full = lists.last().is_none_or(|(_, _, list)| bit == 0 && list.len() == limit);
        if is_full {
            lists.push((at, Coding::Bitmap, Vec::new()));
        }
        if let Some((_, _, list)) = lists.last_mut() {
            if bit == 0 {
                list.push(0);
            }
            if let Some(octet) = list.last_mut() {
                *octet |= u8::from(*has_arrived) << bit;
            }
        }
    }
    lists
}

//! Announces a client, and its table of networks, to another client that may be one of ours.
//!
//! ```text
//!   octet 0          1         5
//!      +------+------+---------+---------- - -
//!      | 1010 | 000A | heard   | table        A asks for an answer
//!      +------+------+---------+---------- - -
//! ```
//!
//! `heard` names the table that its sender has of the receiver, 0 for none. The table has the networks that the
//! sender's routes lead to the receiver.

use super::table::{NoTable, Table};

const FIXED: usize = 5;
const ASKS: u8 = 1;

/// An announcement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Announcement {
    /// Whether it is to be answered, though nothing in it may be new.
    pub(super) asks: bool,
    /// The name of the sender's table for the receiver; 0 for none.
    pub(super) heard: u32,
    /// The networks behind the receiver.
    pub(super) table: Table,
}

/// Why octets are no announcement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
    /// Another first octet.
    #[error("first octet {0:#04x}")]
    First(u8),
    /// What follows is no table.
    #[error(transparent)]
    Table(#[from] NoTable),
    /// There are too few octets.
    #[error("{have} octets, at least {FIXED} are needed")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl Announcement {
    /// The first half octet.
    pub(super) const FIRST: u8 = 10;

    /// Reads the announcement that fills `octets`.
    pub(super) fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let Some((&[first, h0, h1, h2, h3], table)) = octets.split_first_chunk::<FIXED>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        if first & !ASKS != Self::FIRST << 4 {
            return Err(Malformed::First(first));
        }
        let heard = u32::from_be_bytes([h0, h1, h2, h3]);
        Ok(Self { asks: first & ASKS != 0, heard, table: Table::parse(table)? })
    }

    /// Appends the octets.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(Self::FIRST << 4 | u8::from(self.asks));
        out.extend_from_slice(&self.heard.to_be_bytes());
        self.table.emit(out);
    }
}

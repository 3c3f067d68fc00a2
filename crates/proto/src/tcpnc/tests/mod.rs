//! The layer between two TCPs, and the parts by hand.

mod coding;
mod messages;
mod transfers;

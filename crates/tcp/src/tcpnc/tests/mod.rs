//! The layer between two TCPs, and the parts by hand.

mod coding;
mod contract;
mod messages;
mod transfers;

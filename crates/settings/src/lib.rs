//! The one reader of files that people write: a value, or what is wrong with it and where.
//!
//! ```text
//!  Source ──▶ Document ──▶ Section ──▶ Entry ──▶ a value, or a Complaint:
//!   text       TOML         a table     a key     FILE:LINE: KEY: what is wrong, what is allowed
//! ```
//!
//! Readers ask sections for keys by name; a [`Document`] remembers which, so in the end it knows what
//! else stands in the file that nobody asked for, and what was probably meant. Parameters of
//! protocols are read by their tables ([`Section::apply`]), which [`page`] and [`schema`] describe.

mod complaint;
mod document;
mod entry;
mod near;
pub mod page;
pub mod plain;
pub mod schema;
pub mod secret;
mod section;
#[cfg(test)]
mod tests;

pub use complaint::{Complaint, Source};
pub use document::Document;
pub use entry::Entry;
pub use near::nearest;
pub use section::Section;

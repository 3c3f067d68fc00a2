//! Reads files that people write: returns values, or complaints with their place in the file.
//!
//! ```text
//!  Source ──▶ Document ──▶ Section ──▶ Entry ──▶ a value, or a Complaint:
//!   text       TOML         a table     a key     FILE:LINE: KEY: what is wrong, what is allowed
//! ```
//!
//! Readers ask sections for keys by name; a [`Document`] remembers the names, and finally complains about unknown keys
//! in the file and suggests the intended names. Tables of parameters read the settings of protocols
//! ([`Section::apply`]); [`page`] and [`schema`] describe these tables.

mod complaint;
mod document;
mod entry;
pub mod file;
pub mod kind;
mod near;
pub mod page;
pub mod plain;
pub mod schema;
pub mod secret;
mod section;
#[cfg(test)]
mod tests;

pub use complaint::{Complaint, Complaints, Source};
pub use document::{Document, join};
pub use entry::Entry;
pub use near::nearest;
pub use section::{Section, each};

//! HF radio (STANAG 5066): what a link carries, alone and below IP.

mod timeline;

pub use timeline::{capture, timeline};

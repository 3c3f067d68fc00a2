//! Quantities as people write them; they are `proto`'s.

pub use proto::quantity::{BadQuantity, BitRate, Probability, Span, bit_nanos, decimal};

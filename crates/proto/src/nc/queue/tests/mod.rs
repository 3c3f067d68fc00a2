//! What passes, what is told, what is dropped.

mod order;
mod packets;

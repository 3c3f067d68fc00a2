//! What passes, what is told, what is dropped.

mod busy;
mod link;
mod order;
mod packets;

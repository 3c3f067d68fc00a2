//! A client and the server of its node, the layers below played by the test.

mod bench;
mod connection;
mod forward;
mod group;
mod headers;
mod property;
mod queue;
mod ruled;

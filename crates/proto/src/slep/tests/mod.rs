mod bench;
mod datagrams;
mod property;
mod streams;
mod wire;

mod bench;
mod property;
mod streams;
mod wire;

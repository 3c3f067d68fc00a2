//! Tests the program as its users call it, and the pages and files that must agree with it.

mod agreement;
mod bench;
mod install;
mod keygen;
mod lab;
mod log_lines;
mod pages;
mod parameters;
mod scripts;
mod sim;
mod storm;
mod terminal;
mod tls;
mod tune;

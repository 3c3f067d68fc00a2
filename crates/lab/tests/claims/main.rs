//! Tests the laboratory from outside: claims with few runs, scenario files, runs written down and run again.

mod hbh;
mod hf;
mod messages;
mod nc;
mod replay;
mod tactical;

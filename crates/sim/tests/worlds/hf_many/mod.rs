//! Tests many STANAG 5066 stations on one simulated frequency: whole days, collisions, forged frames, IP.

mod air;
mod band;
mod books;
mod day;
mod forged;
mod ip;
mod once;

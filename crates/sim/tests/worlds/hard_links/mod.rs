//! Tests hard links (Annex A, section 3.2.2) of real nodes on one frequency beside other traffic.

mod band;
mod crossing;
mod gone;
mod others;

//! Frames that overlap.

//! Stations that always have something to send.

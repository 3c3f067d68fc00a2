//! The simulated radio in real time between interfaces of namespaces, and, in [`timed`], beside the
//! simulator and the clock.

mod bed;
mod medium;
mod net;
mod refusals;
mod timed;

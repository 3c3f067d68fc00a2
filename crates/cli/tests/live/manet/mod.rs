//! A routing protocol in `trackway run`: nodes of a MANET, made of nothing but this binary and cables.

mod bed;
mod demand;
mod ends;
mod gateway;
mod hostile;
mod routes;
mod timed;
mod wires;

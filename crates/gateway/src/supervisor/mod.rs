//! What watches over the services.

pub(crate) mod alone;
pub(crate) mod control;
pub(crate) mod counters;

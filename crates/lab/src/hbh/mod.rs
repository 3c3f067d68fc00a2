//! The claims about HBH (Marques et al., "Transparent IP Proxy for Tactical Ad hoc Networks").

pub mod limits;

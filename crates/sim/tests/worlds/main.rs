//! Tests whole worlds: nodes, media and services of the simulator together. One program, because each would be linked
//! with all of the simulator.

mod bgp;
mod captures;
mod frequency;
mod half_tunnel;
mod hard_links;
mod hbh_radio;
mod hf_many;
mod messages;
mod new_medium;
mod new_service;
mod ns3;
mod olsr;
mod ospf;
mod routing;
mod s5066;
mod seal;
mod sis;
mod tunnel_radio;

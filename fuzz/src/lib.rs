//! The bodies of all fuzz targets. A target in `targets` runs one body under libFuzzer; `tests/replay.rs` runs every
//! body on the corpora, with the stable toolchain.

mod aodv;
mod dsdv;
mod gateway;
mod gf;
mod gre;
mod hbh;
mod hfpep;
mod ip;
mod ipclient;
mod mobility;
mod modem;
mod nc;
mod olsr;
mod ospf;
mod s5066_dts;
mod s5066_node;
mod sar;
mod sar_service;
mod seal;
mod secure;
mod sis;
mod sis_pair;
mod slep;
mod tcp;
mod tcpnc;
mod text;

/// The name and the body of a target.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("aodv", aodv::node),
    ("bonnmotion", mobility::bonnmotion),
    ("dsdv", dsdv::node),
    ("gateway_config", text::configuration),
    ("gf_kernels", gf::kernels),
    ("gf_solver", gf::solver),
    ("gre", gre::packet),
    ("hbh_auth", hbh::conversation),
    ("hbh_message", hbh::message),
    ("hbh_node", hbh::node),
    ("hello", hbh::hello),
    ("hfpep", hfpep::end),
    ("ip_packet", ip::packet),
    ("minimal", aodv::minimal),
    ("modem_lan", modem::lan),
    ("ipclient", ipclient::ip_client),
    ("ipclient_headers", ipclient::headers),
    ("nc_headers", nc::headers),
    ("nc_tunnel", nc::tunnel),
    ("offload", gateway::offload),
    ("olsr", olsr::node),
    ("ospf", ospf::router),
    ("s5066_arq", s5066_dts::arq),
    ("s5066_frame", s5066_dts::frame),
    ("s5066_node", s5066_node::node),
    ("sar", sar::node),
    ("sar_requests", sar_service::requests),
    ("sar_store", sar_service::store),
    ("scenario_file", text::scenario),
    ("seal", seal::conversation),
    ("secure", secure::peers),
    ("setdest", mobility::setdest),
    ("sis_pair", sis_pair::pair),
    ("sis_primitive", sis::primitive),
    ("sis_server", sis::server),
    ("slep", slep::end),
    ("tcp_connection", tcp::connection),
    ("tcp_segment", tcp::segment),
    ("tcpnc_layer", tcpnc::layer),
    ("tcpnc_message", tcpnc::message),
    ("units", text::quantity),
];

/// Runs the target called `name`.
///
/// # Panics
/// When no target has this name, or when the target finds a fault.
pub fn run(name: &str, input: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    body(input);
}

//! Reads the keys that name other ends: `node` and `gateway`, each with one value or a list.

use std::net::{IpAddr, SocketAddr};

use base::ip::Prefix;
use hf::s5066::Address;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section};

use super::ipclient::network;
use super::{MAX_VALUES, node_schema, values};
use crate::ends::Ends;

/// The ends that a section names; none if it names none.
pub fn read(section: &Section<'_>) -> Result<Ends, Complaint> {
    let (nodes, gateways) = (values(section, "node", node), values(section, "gateway", gateway));
    Ok(Ends::new(nodes?, gateways?))
}

/// One node, not a group.
pub fn node(entry: &Entry<'_>) -> Result<Address, Complaint> {
    let node: Address = entry.parsed()?;
    if node.is_group() {
        return Err(entry.complain(format!("{node} is a group: a connection is to one node")));
    }
    Ok(node)
}

/// The address of a gateway, or the network of several gateways.
fn gateway(entry: &Entry<'_>) -> Result<Prefix, Complaint> {
    let text = entry.text()?;
    if let Ok(at) = text.parse::<SocketAddr>() {
        let what = format!("a gateway connects from any port: {} is meant", at.ip());
        return Err(entry.complain(what));
    }
    text.parse::<IpAddr>().map_or_else(|_| network(entry), |at| Ok(Prefix::host(at.to_canonical())))
}

/// Adds the keys for ends to a section.
pub fn schema(keys: Shape) -> Shape {
    let gateway = schema::like("^[0-9A-Fa-f:.]+(/[+0-9]+)?$");
    keys.key("node", "These nodes, over HF.", schema::one_or_more(node_schema(), MAX_VALUES)).key(
        "gateway",
        "These gateways, or all of a network.",
        schema::one_or_more(gateway, MAX_VALUES),
    )
}

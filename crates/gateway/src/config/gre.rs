//! The sections `gre`: routers that hand over packets in GRE, and the networks behind them.

use std::net::IpAddr;

use base::gre::wire::{HEADER, OPTION};
use base::ip::Prefix;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::{addresses, device, either, ipclient, some};

/// A tunnel to a router.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gre {
    /// The TUN device's name.
    pub device: String,
    /// Our address, the destination of the router's packets.
    pub local: IpAddr,
    /// The router's address.
    pub remote: IpAddr,
    /// The key that tells several tunnels between the two apart.
    pub key: Option<u32>,
    /// Whether packets to the router have a checksum; those from it may.
    pub has_checksum: bool,
    /// Routers that packets in GRE may pass.
    pub ttl: u8,
    /// The longest packet that is sent whole through the tunnel.
    pub mtu: usize,
    /// The device's addresses.
    pub addresses: Vec<Prefix>,
    /// The networks behind the router.
    pub networks: Vec<Prefix>,
    /// Whether packets for them may leave otherwise while the tunnel is gone.
    pub fail_open: bool,
}

const DEVICE: &str = "trackway-gre";
const TTL: u8 = 64;
const MAX_TUNNELS: usize = 64;
const MAX_ADDRESSES: usize = 16;
const MAX_NETWORKS: usize = 256;
/// What an Ethernet carries.
const ETHERNET: usize = 1500;
const MOST_MTU: u16 = 9000;

/// Reads the sections.
pub fn read(root: &Section<'_>) -> Result<Vec<Gre>, Complaint> {
    let sections = root.sections("gre")?;
    if let Some(first) = sections.get(MAX_TUNNELS) {
        return Err(first.complain(format!("more than {MAX_TUNNELS} tunnels")));
    }
    let mut tunnels: Vec<Gre> = Vec::new();
    let mut position = 0..;
    let read = |section: &Section<'_>| {
        let tunnel = tunnel(section, position.next().unwrap_or_default())?;
        let clash = |other: &&Gre| {
            (other.local, other.remote) == (tunnel.local, tunnel.remote) && other.key == tunnel.key
        };
        if let Some(other) = tunnels.iter().find(clash) {
            let what = format!("{} is that tunnel already: another key is needed", other.device);
            return Err(section.needed("remote")?.complain(what));
        }
        if tunnels.iter().any(|other| other.device == tunnel.device) {
            let what = format!("{} is another tunnel's", tunnel.device);
            return Err(section.needed("device")?.complain(what));
        }
        let has = |network: &&Prefix| tunnel.networks.contains(network);
        for other in &tunnels {
            if let Some(network) = other.networks.iter().find(has) {
                let what = format!("{network} is behind {} already", other.device);
                return Err(section.needed("to")?.complain(what));
            }
        }
        tunnels.push(tunnel);
        Ok(())
    };
    each(&sections, read)?;
    Ok(tunnels)
}

fn tunnel(section: &Section<'_>, position: usize) -> Result<Gre, Complaint> {
    let local = section.needed("local").and_then(|it| host(&it));
    let entry = section.needed("remote");
    let remote = entry.clone().and_then(|it| host(&it));
    let key = section
        .get("key")
        .and_then(|it| it.map(|it| it.count(0..=u64::from(u32::MAX))).transpose());
    let has_checksum = either(section, "checksum", false, |entry| entry.flag());
    let ttl = either(section, "ttl", TTL, |entry| entry.count(1..=255));
    let device = either(section, "device", format!("{DEVICE}{position}"), device);
    let addresses = either(section, "addresses", Vec::new(), |it| addresses(it, MAX_ADDRESSES));
    let to = section.needed("to");
    let networks = to.clone().and_then(|it| each(&some(&it, MAX_NETWORKS)?, ipclient::network));
    let has_v6 = networks.iter().flatten().any(|network| network.address().is_ipv6());
    let least = if has_v6 { 1280 } else { 576 };
    let mtu = either(section, "mtu", None, |entry| {
        Ok(Some(usize::from(entry.count::<u16>(least..=u64::from(MOST_MTU))?)))
    });
    let fail_open = either(section, "fail-open", false, |it| it.flag());
    let (local, entry, remote, to, networks) = (local?, entry?, remote?, to?, networks?);
    if local.is_ipv4() != remote.is_ipv4() || local == remote {
        let what =
            format!("{remote} is not allowed: another host, of the same version of IP as {local}");
        return Err(entry.complain(what));
    }
    if let Some(network) = networks.iter().find(|network| network.contains(remote)) {
        let what = format!(
            "{network} has the router {remote} in it: packets to it would go into themselves"
        );
        return Err(to.complain(what));
    }
    let (key, has_checksum) = (key?, has_checksum?);
    let options = usize::from(key.is_some()) + usize::from(has_checksum);
    let outer = if local.is_ipv4() { 20 } else { 40 };
    let whole = ETHERNET - outer - HEADER - OPTION * options;
    Ok(Gre {
        device: device?,
        local,
        remote,
        key,
        has_checksum,
        ttl: ttl?,
        mtu: mtu?.unwrap_or(whole),
        addresses: addresses?,
        networks,
        fail_open: fail_open?,
    })
}

/// An address of one host.
fn host(entry: &Entry<'_>) -> Result<IpAddr, Complaint> {
    let address: IpAddr = entry.parsed()?;
    if address.is_unspecified() || address.is_multicast() {
        return Err(entry.complain(format!("{address} is not one host")));
    }
    Ok(address)
}

/// Describes a section for editors.
pub fn schema() -> serde_json::Value {
    let tunnel = Shape::new()
        .needed("local", "This host's address.", schema::ip())
        .needed("remote", "The router's address.", schema::ip())
        .needed(
            "to",
            "The networks behind the router.",
            schema::list(schema::prefix(), 1, MAX_NETWORKS),
        )
        .key(
            "key",
            "What tells several tunnels between both apart.",
            schema::count(0, u64::from(u32::MAX)),
        )
        .key("checksum", "Whether packets to the router have one.", schema::flag())
        .key("ttl", "Routers that packets may pass.", schema::count(1, 255))
        .key("device", "The name of the TUN device.", super::device_schema())
        .key("addresses", "Those of the device.", schema::list(schema::prefix(), 1, MAX_ADDRESSES))
        .key("mtu", "The longest packet sent whole.", schema::count(576, MOST_MTU.into()))
        .key(
            "fail-open",
            "Whether packets leave otherwise while the tunnel is gone.",
            schema::flag(),
        );
    schema::list(tunnel.table(), 0, MAX_TUNNELS)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const LEAST: &str =
        "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\"\nto = [\"10.1.0.0/16\"]\n";

    #[test]
    fn the_mtu_is_what_ethernet_leaves() {
        let mtu =
            |more: &str| Config::parse("a.toml", &format!("{LEAST}{more}")).unwrap().gre[0].mtu;

        assert_eq!(mtu(""), 1476);
        assert_eq!(mtu("key = 1\nchecksum = true"), 1468);
        assert_eq!(mtu("mtu = 1400"), 1400);
    }

    #[test]
    fn the_example_is_valid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hf/gre.toml");

        let config = Config::read(path.as_ref()).unwrap();

        assert_eq!(config.gre.len(), 1);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("10.7.0.2", "fd00::2", "3: gre.remote: fd00::2 is not allowed: another host"),
            ("10.7.0.2", "10.7.0.1", "3: gre.remote: 10.7.0.1 is not allowed: another host"),
            ("10.7.0.2", "224.0.0.1", "3: gre.remote: 224.0.0.1 is not one host"),
            ("10.1.0.0/16", "10.0.0.0/8", "4: gre.to: 10.0.0.0/8 has the router 10.7.0.2 in it"),
            ("to = ", "ttl = 0\nto = ", "4: gre.ttl: 0 is not allowed: 1 to 255"),
            ("to = ", "mtu = 500\nto = ", "4: gre.mtu: 500 is not allowed: 576 to 9000"),
        ] {
            let said =
                Config::parse("a.toml", &LEAST.replacen(from, to, 1)).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
        let twice = Config::parse("a.toml", &format!("{LEAST}{LEAST}")).unwrap_err().to_string();
        assert!(twice.contains("trackway-gre0 is that tunnel already"), "{twice}");
        let other = LEAST.replace("10.7.0.2", "10.7.0.3");
        let both = Config::parse("a.toml", &format!("{LEAST}{other}")).unwrap_err().to_string();
        assert!(both.contains("8: gre.to: 10.1.0.0/16 is behind trackway-gre0 already"), "{both}");
    }
}

//! Two local networks whose gateways are joined by a cable or an emulated link.

use std::fs;

use anyhow::Context as _;

use crate::{Emulated, Namespaces};

/// Two hosts, each behind a gateway.
///
/// ```text
///   client ──── gateway 0 ──── gateway 1 ──── server
///  10.1.0.2    192.0.2.1      192.0.2.2     10.2.0.2
/// ```
#[derive(Clone, Debug)]
pub struct Sites {
    /// The namespace of the first host, [`Self::CLIENT`].
    pub client: String,
    /// The namespaces of the gateways, with interfaces `lan` and `wan`.
    pub gateways: [String; 2],
    /// The namespace of the other host, [`Self::SERVER`].
    pub server: String,
    /// The emulator of the link between the gateways, if any.
    pub link: Option<Emulated>,
}

impl Sites {
    /// The client's address.
    pub const CLIENT: &str = "10.1.0.2";
    /// The server's address.
    pub const SERVER: &str = "10.2.0.2";

    /// Makes the networks. With options of `trackway link`, the cable between the gateways is emulated. Gateways
    /// forward no packets yet.
    ///
    /// # Errors
    /// When we are not root, or a program is missing.
    pub fn new(nets: &mut Namespaces, link: Option<&str>) -> anyhow::Result<Self> {
        let [client, near, far, server] =
            [nets.add("client")?, nets.add("near")?, nets.add("far")?, nets.add("server")?];
        for (host, gateway, site) in [(&client, &near, 1), (&server, &far, 2)] {
            nets.cable((host, "eth0"), (gateway, "lan"))?;
            nets.address(host, "eth0", &format!("10.{site}.0.2/24"))?;
            nets.address(gateway, "lan", &format!("10.{site}.0.1/24"))?;
            nets.run(host, &format!("ip route add default via 10.{site}.0.1"))?;
        }
        let ends = [(&near[..], "wan", "192.0.2.1"), (&far[..], "wan", "192.0.2.2")];
        let link = match link {
            Some(options) => Some(nets.emulate(ends, options)?),
            None => {
                nets.cable((&near, "wan"), (&far, "wan"))?;
                for (gateway, interface, address) in ends {
                    nets.address(gateway, interface, &format!("{address}/24"))?;
                }
                None
            }
        };
        Ok(Self { client, gateways: [near, far], server, link })
    }

    /// Lets the gateways forward packets.
    ///
    /// # Errors
    /// When we are not root.
    pub fn forward(&self) -> anyhow::Result<()> {
        for gateway in &self.gateways {
            emulator::namespace::within(gateway, || {
                fs::write("/proc/sys/net/ipv4/ip_forward", "1")
            })?
            .context("cannot let a gateway forward")?;
        }
        Ok(())
    }

    /// Gives each gateway a plain route to the other's network.
    ///
    /// # Errors
    /// When a gateway has such a route.
    pub fn route(&self, nets: &Namespaces) -> anyhow::Result<()> {
        for (gateway, there) in self.gateways.iter().zip([2, 1]) {
            nets.run(gateway, &format!("ip route add 10.{there}.0.0/24 via 192.0.2.{there}"))?;
        }
        Ok(())
    }
}

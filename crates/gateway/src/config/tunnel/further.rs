//! Reads the further paths to a peer, beside the one that routes choose: each with the interface or the address of this
//! host by which it leaves.

use std::net::{IpAddr, SocketAddr};

use ::tunnel::PATHS;
use ::tunnel::secure::PORT;
use settings::schema::{self, Shape};
use settings::{Complaint, Section, each};

use super::endpoint::{self, Endpoint};
use crate::config::{device, device_schema, either};

/// Further paths of a peer at most.
pub const MAX_PATHS: usize = PATHS - 1;

/// A further path to a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Further {
    /// The local interface of the path.
    pub interface: Option<String>,
    /// The local address of the path.
    pub local: Option<IpAddr>,
    /// Where it leads; without, to the peer's own endpoint.
    pub endpoint: Option<Endpoint>,
    /// Whether it serves only while no other path does.
    pub is_backup: bool,
}

/// Reads the paths of a peer that is called at `whole`; `whole` and `listen` are there if they could be read.
pub fn read(
    peer: &Section<'_>,
    whole: Option<Option<&Endpoint>>,
    listen: Option<&[SocketAddr]>,
) -> Result<Vec<Further>, Complaint> {
    let Some(entry) = peer.get("path")? else { return Ok(Vec::new()) };
    let sections = peer.sections("path")?;
    if sections.len() > MAX_PATHS {
        let what = format!(
            "{} of them: at most {MAX_PATHS} are allowed, beside the path without a section",
            sections.len()
        );
        sections.iter().for_each(Section::pass_over);
        return Err(entry.complain(what));
    }
    let mut paths: Vec<Further> = Vec::with_capacity(sections.len());
    each(&sections, |section| {
        let path = one(section, whole, listen)?;
        if paths.contains(&path) {
            return Err(section.complain("the same path is there twice: remove one of both"));
        }
        paths.push(path);
        Ok(())
    })?;
    Ok(paths)
}

fn one(
    section: &Section<'_>,
    whole: Option<Option<&Endpoint>>,
    listen: Option<&[SocketAddr]>,
) -> Result<Further, Complaint> {
    let interface = either(section, "interface", None, |it| device(it).map(Some));
    let local = either(section, "local", None, |entry| {
        let ip: IpAddr = entry.parsed()?;
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(entry.complain(format!(
                "{ip} is no address of an interface of this host, such as 192.0.2.1"
            )));
        }
        Ok(Some(ip))
    });
    let endpoint = either(section, "endpoint", None, |entry| {
        match endpoint::read(entry, listen)? {
            Endpoint::Name(name, _) => Err(entry.complain(format!(
                "{name} is a name: an address is needed here, such as 192.0.2.2:{PORT}; without `endpoint`, the path \
                 leads to where the peer's own name does"
            ))),
            endpoint => Ok(Some(endpoint)),
        }
    });
    let is_backup = either(section, "backup", false, |it| it.flag());
    let path = Further {
        interface: interface?,
        local: local?,
        endpoint: endpoint?,
        is_backup: is_backup?,
    };
    if path.interface.is_none() && path.local.is_none() && path.endpoint.is_none() {
        return Err(section
            .complain("what makes it another path? `interface`, `local` or `endpoint` is needed"));
    }
    let Some(whole) = whole else { return Ok(path) };
    let Some(leads_to) = path.endpoint.as_ref().or(whole) else {
        return Err(section.complain(
            "it leads nowhere: add `endpoint`, here or to the peer; or remove the section, because a peer that only \
             calls opens its paths itself",
        ));
    };
    let ip = leads_to.ip();
    if let (Some(local), Some(ip)) = (path.local, ip)
        && local.is_ipv4() != ip.is_ipv4()
    {
        return Err(section.needed("local")?.complain(format!(
            "{local} and the endpoint {leads_to} are of different versions of IP"
        )));
    }
    let is_v4 = path.local.or(ip).map(|ip| ip.is_ipv4());
    let takes = |at: &SocketAddr| match path.local {
        Some(local) if at.ip() == local => true,
        Some(_) | None => at.ip().is_unspecified() && (at.is_ipv6() || is_v4 != Some(false)),
    };
    if let (Some(local), Some(listen)) = (path.local, listen)
        && !listen.iter().any(takes)
    {
        return Err(section.needed("local")?.complain(format!(
            "nothing arrives at {local}: `listen` needs this address, or all addresses"
        )));
    }
    Ok(path)
}

/// Describes a section for editors.
pub fn schema() -> Shape {
    Shape::new()
        .key("interface", "The interface by which the path leaves.", device_schema())
        .key("local", "The local address of the path.", schema::ip())
        .key(
            "endpoint",
            "Where it leads; without, to the peer's endpoint.",
            schema::like(":[0-9]+$"),
        )
        .key("backup", "Whether it serves only while no other path does.", schema::flag())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const TEXT: &str = r#"[tunnel]
private-key = "a.key"
addresses = ["10.99.0.1/24"]
[[tunnel.peer]]
name = "far"
public-key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
routes = ["10.2.0.0/16"]
endpoint = "192.0.2.2:51900"
"#;

    #[test]
    fn paths_have_the_order_of_their_sections() {
        let text = format!(
            "{TEXT}[[tunnel.peer.path]]\ninterface = \"wwan0\"\nbackup = true\n\
             [[tunnel.peer.path]]\nlocal = \"198.51.100.1\"\nendpoint = \"203.0.113.2:51900\"\n"
        );

        let config = Config::parse("a.toml", &text).unwrap().tunnel.unwrap();

        let by_interface = Further {
            interface: Some("wwan0".to_owned()),
            local: None,
            endpoint: None,
            is_backup: true,
        };
        let endpoint = Endpoint::Address("203.0.113.2:51900".parse().unwrap());
        let by_address = Further {
            interface: None,
            local: Some("198.51.100.1".parse().unwrap()),
            endpoint: Some(endpoint),
            is_backup: false,
        };
        assert_eq!(config.peers[0].paths, [by_interface, by_address]);
    }

    #[test]
    fn a_path_that_cannot_be_is_refused_with_its_line_and_the_remedy() {
        let path = |keys: &str| format!("[[tunnel.peer.path]]\n{keys}\n");
        let four: String = (0..4).map(|it| path(&format!("interface = \"eth{it}\""))).collect();
        for (paths, expected) in [
            (four, "9: tunnel.peer.path: 4 of them: at most 3"),
            (path("backup = true"), "9: tunnel.peer.path: what makes it another path?"),
            (path("interface = \"a b\""), "10: tunnel.peer.path.interface: \"a b\" cannot be"),
            (path("local = \"0.0.0.0\""), "10: tunnel.peer.path.local: 0.0.0.0 is no address"),
            (path("local = \"fd00::1\""), "10: tunnel.peer.path.local: fd00::1 and the endpoint"),
            (
                path("endpoint = \"a.example:1\""),
                "10: tunnel.peer.path.endpoint: a.example is a name",
            ),
            (path("interface = \"eth0\"\nprice = 3"), "11: tunnel.peer.path.price: "),
            (path("interface = \"eth0\"").repeat(2), "11: tunnel.peer.path: the same path"),
        ] {
            let said = Config::parse("a.toml", &format!("{TEXT}{paths}")).unwrap_err().to_string();
            let expected = format!("a.toml:{expected}");
            assert!(
                said.lines().any(|line| line.starts_with(&expected)),
                "{said}\nnot\n{expected}"
            );
        }
        let uncalled = TEXT.replace("endpoint = \"192.0.2.2:51900\"\n", "");
        let said = Config::parse("a.toml", &format!("{uncalled}{}", path("interface = \"eth0\"")));
        assert!(said.unwrap_err().to_string().contains("8: tunnel.peer.path: it leads nowhere"));
        let bound = TEXT.replace("addresses", "listen = \"192.0.2.1:51900\"\naddresses");
        let said = Config::parse("a.toml", &format!("{bound}{}", path("local = \"192.0.2.9\"")));
        assert!(said.unwrap_err().to_string().contains("nothing arrives at 192.0.2.9"));
    }
}

//! Reads the section `hfpep.bearer`: TCP connections between gateways, each for a single connection of programs.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::ip::Prefix;
use base::parameter::Kind;
use settings::schema::{self, Shape};
use settings::{Complaint, Section, each};

use super::{either, ipclient, s5066, some};

base::parameters! {
    /// The numeric parameters of the section.
    pub static PARAMETERS = "hfpep-bearer";

    /// How connections go to other gateways, and come from them.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Bearer from default() {
        /// Connections to each gateway that are open before they are needed: each saves a new connection of a program
        /// one round trip.
        #[allowed(Kind::count(0..=256))]
        pub spare: usize = 8;

        /// Connections of programs at a time, also those that other gateways open.
        #[allowed(Kind::count(1..=100_000))]
        pub sessions: usize = 10_000;

        /// What the kernel may hold of a connection between gateways in each direction: at least the rate of one
        /// connection times the round trip.
        #[allowed(Kind::count(65_536..=1_073_741_824).of("octets"))]
        pub buffer: usize = 16 << 20;

        /// Where other gateways connect to; `None` if none does.
        pub listen: Option<SocketAddr> = None;

        /// Which addresses may connect there.
        pub from: Vec<Prefix> = Vec::new();

        /// The kernel's congestion control, such as `bbr`.
        pub congestion_control: String = CONGESTION_CONTROL.to_owned();
    }
}

impl Bearer {
    /// Whether any gateway may connect from a network.
    pub(crate) fn admits(&self, network: &Prefix) -> bool {
        self.from.iter().any(|from| from.overlaps(network))
    }
}

/// Does not take each loss for congestion, as long paths lose for other reasons too.
const CONGESTION_CONTROL: &str = "bbr";
/// Of the kernel: letters of the name of a congestion control at most.
const MAX_NAME: usize = 15;
const MAX_SOURCES: usize = 256;

/// Reads the section in `hfpep`, whose peers are these gateways.
pub(crate) fn read(
    hfpep: &Section<'_>,
    gateways: Option<&BTreeSet<SocketAddr>>,
) -> Result<Bearer, Complaint> {
    let mut bearer = Bearer::default();
    let Some(section) = hfpep.section("bearer")? else { return Ok(bearer) };
    let parameters = section.apply(&PARAMETERS, &mut bearer);
    let congestion_control =
        either(&section, "congestion-control", bearer.congestion_control.clone(), |entry| {
            let name = entry.text()?;
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_letter) {
                let what =
                    format!("{name:?} is none of the kernel's: such as \"bbr\" or \"cubic\"");
                return Err(entry.complain(what));
            }
            Ok(name.to_owned())
        });
    let listen_entry = section.get("listen");
    let listen = listen_entry.clone().and_then(|it| it.as_ref().map(s5066::listen).transpose());
    let from = section.get("from").and_then(|from| match (from, &listen_entry) {
        (_, Err(complaint)) => Err(complaint.clone()),
        (Some(entry), Ok(None)) => Err(entry.complain("it is for who connects to listen")),
        (Some(entry), Ok(Some(_))) => each(&some(&entry, MAX_SOURCES)?, ipclient::network),
        (None, Ok(Some(entry))) => match gateways {
            Some(gateways) if gateways.is_empty() => Err(entry.complain(
                "from is needed: the networks of the gateways that may connect, such as \
                 [\"192.0.2.1/32\"]",
            )),
            gateways => {
                let all = gateways.into_iter().flatten();
                Ok(all.map(|it| Prefix::host(it.ip())).collect())
            }
        },
        (None, Ok(None)) => Ok(Vec::new()),
    });
    parameters?;
    Ok(Bearer { listen: listen?, from: from?, congestion_control: congestion_control?, ..bearer })
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    Shape::new()
        .parameters(&PARAMETERS.describe(&[("[hfpep.bearer]", Bearer::default())]))
        .key("listen", "Where other gateways connect to.", schema::socket())
        .key(
            "from",
            "Networks that may connect there.",
            schema::list(schema::prefix(), 1, MAX_SOURCES),
        )
        .key(
            "congestion-control",
            "The kernel's congestion control, such as \"bbr\".",
            schema::like(&format!("^[A-Za-z0-9_-]{{1,{MAX_NAME}}}$")),
        )
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, HfPep};

    const GATEWAY: &str = "[[hfpep.peer]]\ngateway = \"192.0.2.2:5099\"\nto = [\"10.2.0.0/16\"]\n";
    const NODE: &str = "[[hfpep.peer]]\nnode = \"0.10.20.31\"\nto = [\"10.3.0.0/16\"]\n";
    const LISTEN: &str = "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\n";

    fn read(text: &str) -> Result<HfPep, String> {
        let read = Config::parse("a.toml", text).map_err(|why| why.to_string())?;
        Ok(read.hf_pep.unwrap())
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/satellite");
            Config::read(&folder.join(name)).unwrap().hf_pep.unwrap()
        };

        let (near, far) = (read("split-near.toml"), read("split-far.toml"));

        for (here, there) in [(&near, &far), (&far, &near)] {
            assert_eq!(here.peers[0].far.gateway(), there.bearer.listen);
            assert!(here.bearer.from[0].contains(there.bearer.listen.unwrap().ip()));
        }
    }

    #[test]
    fn a_server_is_only_dialled_where_something_goes_over_hf() {
        for (text, has_server) in [
            ("[hfpep]\n".to_owned(), true),
            (GATEWAY.to_owned(), false),
            (format!("{LISTEN}from = [\"192.0.2.2/32\"]"), false),
            (format!("{GATEWAY}{NODE}"), true),
            (format!("[hfpep]\nserver = \"127.0.0.1:5066\"\n{GATEWAY}"), true),
        ] {
            assert_eq!(read(&text).unwrap().server.is_some(), has_server, "{text}");
        }
    }

    #[test]
    fn peers_may_connect_unless_others_are_named() {
        let own = read(&format!("{GATEWAY}{LISTEN}")).unwrap();
        let named = read(&format!("{GATEWAY}{LISTEN}from = [\"10.9.0.0/16\"]")).unwrap();

        let from = |read: &HfPep| read.bearer.from[0].to_string();
        assert_eq!((from(&own), from(&named)), ("192.0.2.2/32".into(), "10.9.0.0/16".into()));
        assert_eq!(own.peers[0].far.gateway(), "192.0.2.2:5099".parse().ok());
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (text, expected) in [
            (LISTEN.to_owned(), "2: hfpep.bearer.listen: from is needed"),
            (
                "[hfpep.bearer]\nfrom = [\"10.9.0.0/16\"]".to_owned(),
                "2: hfpep.bearer.from: it is for who connects to listen",
            ),
            (
                format!("{GATEWAY}node = \"0.10.20.31\""),
                "2: hfpep.peer.gateway: a peer has either a node, over HF, or a gateway",
            ),
            (
                "[[hfpep.peer]]\nto = [\"10.2.0.0/16\"]".to_owned(),
                "1: hfpep.peer: node, over HF, or gateway, over IP, is missing",
            ),
            (
                "[hfpep.bearer]\ncongestion-control = \"\"".to_owned(),
                "2: hfpep.bearer.congestion-control: \"\" is none of the kernel's",
            ),
            (
                "[hfpep.bearer]\nspare = 257".to_owned(),
                "2: hfpep.bearer.spare: 257 is not allowed: 0 to 256",
            ),
        ] {
            let said = read(&text).unwrap_err();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }
}

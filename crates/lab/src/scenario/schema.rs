//! Describes scenario files for editors, as a JSON schema.

use base::parameter::Description;
use hf::ipclient;
use manet::{aodv, dsdv, olsr, ospf};
use serde_json::{Value as Json, json};
use settings::schema::{self, Shape};
use sim::channel;
use sim::mobility::waypoint;
use sim::{INTERFACE, InterfaceConfig, cnr, radio};
use tcp::tcpnc;
use tunnel as nc;

use super::hf::station_parameters;
use super::motion::{COORDINATE, SPEED};
use super::net::MAX_STATIONS;
use super::reader::{INTERVAL, MAX_DSCP, MOST, PAYLOAD};
use super::tactical::{BGP, Bgp, MESSAGES, Messages};
use super::{names, routing};

/// A JSON schema of scenario files.
#[must_use]
pub fn schema() -> Json {
    let keys = Shape::new()
        .needed("nodes", "The names of all nodes.", schema::list(node(), 1, most("nodes")))
        .key("duration", "When the run ends at the latest.", schema::time())
        .key(
            "follow-every",
            "How often routes are looked for anew, with routing = \"follow\".",
            schema::time(),
        )
        .key(
            "seed",
            "What the random choices derive from; in quotes if it is too great for TOML.",
            schema::any([schema::count(0, i64::MAX.unsigned_abs()), schema::like("^[+]?[0-9]+$")]),
        )
        .key("routing", "How nodes find their routes.", schema::words(&routing::NAMES))
        .key(
            "passive-opens",
            "How many connections a host accepts at a time.",
            schema::any([schema::count(1, 4_096), schema::like("^on-demand$")]),
        )
        .key("hbh", "HBH on all nodes.", switch("hbh"))
        .key("tcpnc", "TCP/NC below the TCP of all nodes.", switch("tcpnc"))
        .key("defaults.link", "What links have that do not say.", direction(Shape::new()).table())
        .key("defaults.tcp", "What connections have that do not say.", schema::shared("tcp"))
        .key("link", "Cables between two nodes.", several("link", link()))
        .key("radio", "Channels of 802.11.", several("radio", radio_channel()))
        .key("net", "Combat nets.", several("net", net()))
        .key("hf", "Frequencies of HF radio.", several("hf", frequency()))
        .key("node", "What single nodes have.", Shape::new().others(one_node().table()).table())
        .key("route", "Routes that are set by hand.", several("route", route()))
        .key("tunnel", "Coded tunnels.", several("tunnel", tunnel()))
        .key("tcpnc-tunnel", "TCP/NC between two nodes.", several("tcpnc-tunnel", tcpnc_tunnel()))
        .key("tcp", "TCP connections.", several("tcp", transfer()))
        .key("udp", "Streams of datagrams.", several("udp", stream()))
        .key("bgp", "Speakers of BGP.", bgp().table())
        .key("messages", "Messages among nodes.", messages().table())
        .key(
            "aodv",
            "With routing = \"aodv\".",
            of(&aodv::PARAMETERS.describe(&[("aodv", aodv::Config::default())])),
        )
        .key(
            "dsdv",
            "With routing = \"dsdv\".",
            of(&dsdv::PARAMETERS.describe(&[("dsdv", dsdv::Config::default())])),
        )
        .key(
            "olsr",
            "With routing = \"olsr\".",
            of(&olsr::PARAMETERS.describe(&[("olsr", olsr::Config::default())])),
        )
        .key(
            "ospf",
            "With routing = \"ospf\".",
            of(&ospf::PARAMETERS.describe(&[("ospf", ospf::Config::default())])),
        );
    let hbh = hbh::PARAMETERS.describe(&[("hbh", hbh::Config::new(hbh::Profile::Default))]);
    let shared = vec![
        ("hbh", of(&hbh)),
        ("tcp", of(&tcp::PARAMETERS.describe(&[("tcp", tcp::Config::default())]))),
        ("tcpnc", of(&tcpnc::PARAMETERS.describe(&[("tcpnc", tcpnc::Config::default())]))),
    ];
    schema::document("A scenario of Trackway's laboratory", keys, shared)
}

/// A table with nothing but parameters.
fn of(described: &Description) -> Json {
    Shape::new().parameters(described).table()
}

/// How many of a list there may be.
fn most(name: &str) -> usize {
    MOST.iter().find(|(known, _)| *known == name).map_or(usize::MAX, |(_, most)| *most)
}

fn several(name: &str, keys: Shape) -> Json {
    schema::list(keys.table(), 0, most(name))
}

/// The name of a node.
fn node() -> Json {
    schema::like("^[A-Za-z0-9._-]([A-Za-z0-9._ -]{0,30}[A-Za-z0-9._-])?$")
}

fn nodes() -> Json {
    schema::list(node(), 0, usize::MAX)
}

fn pair(of: &Json) -> Json {
    schema::list(of.clone(), 2, 2)
}

/// `true`, `false`, or a shared table of parameters.
fn switch(name: &str) -> Json {
    schema::any([schema::flag(), schema::shared(name)])
}

/// Spans of time.
fn spans() -> Json {
    schema::list(pair(&schema::time()), 0, usize::MAX)
}

fn place() -> Json {
    pair(&schema::of_kind(&COORDINATE))
}

/// The name of a flow or a medium in reports.
fn named(keys: Shape) -> Shape {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": names::LONGEST_NAME });
    keys.key("name", "What reports call it.", name)
}

/// The way in one direction.
fn direction(keys: Shape) -> Shape {
    keys.parameters(&channel::PARAMETERS.describe(&[("link", channel::Config::default())]))
        .parameters(&INTERFACE.describe(&[("interface", InterfaceConfig::default())]))
        .key("down", "When it carries nothing: pairs of times.", spans())
}

fn link() -> Shape {
    direction(Shape::new())
        .needed("between", "The two nodes.", pair(&node()))
        .key("noticed", "Whether routing notices that it is down.", schema::flag())
        .key(
            "there",
            "What differs from the first node to the second.",
            direction(Shape::new()).table(),
        )
        .key(
            "back",
            "What differs from the second node to the first.",
            direction(Shape::new()).table(),
        )
        .key("cost", "Of this link in routes.", schema::count(0, u32::MAX.into()))
}

/// How a node moves by a rule or a file.
fn model() -> Json {
    let waypoint = waypoint::Waypoint::default();
    let random = Shape::new()
        .needed("model", "How nodes move.", schema::like("^random-waypoint$"))
        .key("area", "Its sides in metres.", place())
        .key("corner", "Where the area begins.", place())
        .parameters(&waypoint::PARAMETERS.describe(&[("random-waypoint", waypoint)]));
    let trace = Shape::new()
        .needed("trace", "A file with movements, of ns-2 or BonnMotion.", schema::text())
        .key("node", "The node of the file.", schema::count(0, u32::MAX.into()));
    schema::any([random.table(), trace.table()])
}

fn radio_channel() -> Shape {
    named(Shape::new())
        .parameters(&radio::PARAMETERS.describe(&[("radio", radio::Config::default())]))
        .parameters(&INTERFACE.describe(&[("interface", InterfaceConfig::default())]))
        .key("stations", "The nodes on the channel; without, all.", nodes())
        .key("off", "When radios are off, by node.", Shape::new().others(spans()).table())
        .key("motion", "How stations move that do not say.", model())
}

fn net() -> Shape {
    let config = cnr::Config::default();
    named(Shape::new())
        .parameters(&cnr::PARAMETERS.describe(&[("net", config)]))
        .key(
            "stations",
            "The nodes on the net; without, all.",
            schema::list(node(), 0, MAX_STATIONS),
        )
        .key(
            "hears",
            "Who hears whom: \"all\", \"places\", or pairs of stations.",
            schema::any([
                schema::like("^(all|places)$"),
                schema::list(pair(&node()), 0, usize::MAX),
            ]),
        )
}

fn frequency() -> Shape {
    let client = ipclient::Config::new(Vec::new());
    Shape::new()
        .parameters(&station_parameters())
        .needed("stations", "The nodes with a radio on it.", schema::list(node(), 2, 32))
        .key(
            "behind",
            "The nodes behind a station, by station.",
            Shape::new().others(nodes()).table(),
        )
        .key("channel", "Clear, silent, \"ber:1e-5\", \"awgn:10\", ...", schema::text())
        .key(
            "ipclient",
            "Of all stations.",
            of(&ipclient::PARAMETERS.describe(&[("[[hf]]", client)])),
        )
}

fn one_node() -> Shape {
    let leg = Shape::new()
        .needed("at", "When it sets out.", schema::time())
        .needed("to", "Where to.", place())
        .needed("speed", "In metres a second.", schema::of_kind(&SPEED));
    Shape::new()
        .key(
            "addresses",
            "Addresses besides those of its links.",
            schema::list(schema::ip(), 0, usize::MAX),
        )
        .key("hbh", "HBH on this node.", switch("hbh"))
        .key("tcpnc", "TCP/NC below the TCP of this node.", switch("tcpnc"))
        .key("gateway", "Whether others reach wired nodes by it.", schema::flag())
        .key("position", "Where it is, in metres.", place())
        .key(
            "motion",
            "How it moves.",
            schema::any([schema::list(leg.table(), 0, usize::MAX), model()]),
        )
        .key("off", "When its radio is off.", spans())
}

fn route() -> Shape {
    Shape::new()
        .needed("node", "The node whose route it is.", node())
        .needed("to", "A node, an address or a network.", schema::text())
        .key("via", "The neighbour that is next.", node())
        .key("remove", "Whether a route is removed instead.", schema::flag())
        .key(
            "metric",
            "Of several routes the one with the lowest is taken.",
            schema::count(0, u32::MAX.into()),
        )
        .key("at", "When it is set.", schema::time())
}

fn tunnel() -> Shape {
    Shape::new()
        .parameters(&nc::PARAMETERS.describe(&[("tunnel", nc::Config::default())]))
        .needed("between", "The two ends.", pair(&node()))
        .needed("behind", "The nodes behind the first and the second.", pair(&nodes()))
        .key(
            "all-links",
            "Whether each link between the two ends is a path of the tunnel.",
            schema::flag(),
        )
}

fn tcpnc_tunnel() -> Shape {
    Shape::new()
        .needed("between", "The two ends.", pair(&node()))
        .key("options", "Of its TCP.", schema::shared("tcp"))
        .key("tcpnc", "Of the layer below.", schema::shared("tcpnc"))
}

fn flow() -> Shape {
    named(Shape::new())
        .needed("from", "The node that sends.", node())
        .needed("to", "The node that receives.", node())
        .key("port", "Where to.", schema::count(1, 65_535))
        .key("from-port", "Where from.", schema::count(1, 65_535))
        .key("ipv6", "Whether it goes by IPv6.", schema::flag())
        .key("start", "When it begins.", schema::time())
        .key("dscp", "The code point of its packets.", schema::count(0, MAX_DSCP))
}

fn transfer() -> Shape {
    flow()
        .key(
            "octets",
            "How many; without, it never ends.",
            schema::count(0, i64::MAX.unsigned_abs()),
        )
        .key("options", "Of its TCP.", schema::shared("tcp"))
}

fn stream() -> Shape {
    flow()
        .needed("payload", "Octets of a datagram.", schema::of_kind(&PAYLOAD))
        .key("interval", "From one datagram to the next.", schema::of_kind(&INTERVAL))
        .key(
            "rate",
            "Of the payload, such as \"64kbit\".",
            schema::of_kind(&base::parameter::Kind::Rate { may_be_unlimited: false }),
        )
        .one_of(&["interval", "rate"])
        .key("stop", "When it ends.", schema::time())
        .key("count", "Datagrams at most.", schema::count(0, i64::MAX.unsigned_abs()))
        .key("answered", "Whether each is answered.", schema::flag())
}

/// What traffic among several nodes has.
fn among(keys: Shape) -> Shape {
    keys.key("nodes", "The nodes; without, all with addresses.", nodes())
        .key("start", "When it begins.", schema::time())
        .key("stop", "When it ends.", schema::time())
        .key("options", "Of its TCP.", schema::shared("tcp"))
}

fn bgp() -> Shape {
    among(Shape::new()).parameters(&BGP.describe(&[("bgp", Bgp::default())]))
}

fn messages() -> Shape {
    let sar = sar::PARAMETERS.describe(&[("sar", sar::Config::default())]);
    among(Shape::new()).parameters(&MESSAGES.describe(&[("messages", Messages::default())])).key(
        "sar",
        "Of S/R, with over = \"sar\".",
        of(&sar),
    )
}

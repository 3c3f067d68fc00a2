//! The table of AODV's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::ip::Prefix;
use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};

use super::config::{Config, Hellos, Profile};

/// The settings of AODV. The profile comes first because it sets all others.
pub static PARAMETERS: Table<Config> = Table {
    name: "aodv",
    parameters: &[
        Parameter::new(
            "profile",
            Kind::Word(&names(&Profile::NAMES)),
            "How a node learns that a neighbour is gone: by hellos, or from the link layer.",
            |it| word(&Profile::NAMES, &it.profile),
            |it, to| *it = Config::new(named(&Profile::NAMES, to.text()).unwrap_or_default()),
        ),
        Parameter::new(
            "active-route-timeout",
            TIMEOUT,
            "How long a route stays without being used (ACTIVE_ROUTE_TIMEOUT).",
            |it| it.active_route_timeout.into(),
            |it, to| it.active_route_timeout = to.period(),
        ),
        Parameter::new(
            "my-route-timeout",
            TIMEOUT,
            "How long a route is good that the destination answers with (MY_ROUTE_TIMEOUT).",
            |it| it.my_route_timeout.into(),
            |it, to| it.my_route_timeout = to.period(),
        ),
        Parameter::new(
            "delete-period",
            TIMEOUT,
            "How long a route that ended is remembered, so that no older one is taken (DELETE_PERIOD).",
            |it| it.delete_period.into(),
            |it, to| it.delete_period = to.period(),
        ),
        Parameter::new(
            "node-traversal-time",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(10) },
            "How long a message takes for a hop, as is assumed (NODE_TRAVERSAL_TIME).",
            |it| it.node_traversal_time.into(),
            |it, to| it.node_traversal_time = to.period(),
        ),
        Parameter::new(
            "net-diameter",
            HOPS,
            "Hops between any two nodes at most (NET_DIAMETER).",
            |it| it.net_diameter.into(),
            |it, to| it.net_diameter = to.count(),
        ),
        Parameter::new(
            "rreq-retries",
            Kind::Count { least: 0, most: 10, unit: "" },
            "How often the whole network is asked again (RREQ_RETRIES).",
            |it| it.rreq_retries.into(),
            |it, to| it.rreq_retries = to.count(),
        ),
        Parameter::new(
            "rreq-rate",
            RATE,
            "Requests that a node begins in a second at most (RREQ_RATELIMIT).",
            |it| it.rreq_rate.into(),
            |it, to| it.rreq_rate = to.count(),
        ),
        Parameter::new(
            "rerr-rate",
            RATE,
            "Errors that a node sends in a second at most (RERR_RATELIMIT).",
            |it| it.rerr_rate.into(),
            |it, to| it.rerr_rate = to.count(),
        ),
        Parameter::new(
            "ring.start",
            HOPS,
            "How far the first request for a destination goes (TTL_START).",
            |it| it.ring.start.into(),
            |it, to| it.ring.start = to.count(),
        ),
        Parameter::new(
            "ring.increment",
            HOPS,
            "How much farther each following one goes (TTL_INCREMENT).",
            |it| it.ring.increment.into(),
            |it, to| it.ring.increment = to.count(),
        ),
        Parameter::new(
            "ring.threshold",
            HOPS,
            "Beyond this the whole network is asked (TTL_THRESHOLD).",
            |it| it.ring.threshold.into(),
            |it, to| it.ring.threshold = to.count(),
        ),
        Parameter::new(
            "ring.timeout-buffer",
            Kind::Count { least: 0, most: 100, unit: "hops" },
            "For how many hops more an answer is waited (TIMEOUT_BUFFER).",
            |it| it.ring.timeout_buffer.into(),
            |it, to| it.ring.timeout_buffer = to.count(),
        ),
        Parameter::new(
            "hello.mode",
            Kind::Word(&names(&Hellos::NAMES)),
            "Who sends hellos: nodes on active routes, all, or none.",
            |it| word(&Hellos::NAMES, &it.hello.mode),
            |it, to| it.hello.mode = named(&Hellos::NAMES, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "hello.interval",
            Kind::Period { least: Duration::from_millis(10), most: HOUR },
            "How often (HELLO_INTERVAL).",
            |it| it.hello.interval.into(),
            |it, to| it.hello.interval = to.period(),
        ),
        Parameter::new(
            "hello.allowed-loss",
            Kind::Count { least: 1, most: 100, unit: "" },
            "How many hellos may be lost before a neighbour counts as gone (ALLOWED_HELLO_LOSS).",
            |it| it.hello.allowed_loss.into(),
            |it, to| it.hello.allowed_loss = to.count(),
        ),
        Parameter::new(
            "acknowledge-replies",
            Kind::Flag,
            "Whether replies ask for an acknowledgement; without one the neighbour is ignored for a \
             while.",
            |it| it.unidirectional.acknowledge.into(),
            |it, to| it.unidirectional.acknowledge = to.flag(),
        ),
        Parameter::new(
            "next-hop-wait",
            Kind::Period { least: Duration::from_millis(1), most: HOUR },
            "How long an acknowledgement of a reply is waited for (NEXT_HOP_WAIT).",
            |it| it.unidirectional.next_hop_wait.into(),
            |it, to| it.unidirectional.next_hop_wait = to.period(),
        ),
        Parameter::new(
            "blacklist-timeout",
            TIMEOUT,
            "How long requests of a neighbour that sent none are ignored (BLACKLIST_TIMEOUT).",
            |it| it.unidirectional.blacklist_timeout.into(),
            |it, to| it.unidirectional.blacklist_timeout = to.period(),
        ),
        Parameter::new(
            "jitter",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(10) },
            "Messages to all wait for a random time below this.",
            |it| it.jitter.into(),
            |it, to| it.jitter = to.period(),
        ),
        Parameter::new(
            "gratuitous",
            Kind::Flag,
            "Whether destinations learn the way back also when another node answers for them.",
            |it| it.gratuitous.into(),
            |it, to| it.gratuitous = to.flag(),
        ),
        Parameter::new(
            "destination-only",
            Kind::Flag,
            "Whether only destinations may answer.",
            |it| it.destination_only.into(),
            |it, to| it.destination_only = to.flag(),
        ),
        Parameter::new(
            "wait-after-reboot",
            Kind::Flag,
            "Whether a node that starts waits for delete-period before it takes part: without, loops \
             are possible.",
            |it| it.wait_after_reboot.into(),
            |it, to| it.wait_after_reboot = to.flag(),
        ),
        Parameter::new(
            "manet",
            Kind::Text {
                allowed: "an IPv4 prefix, such as \"10.0.0.0/8\"",
                check: |text| manet(text).map(|_| ()),
                examples: &["10.0.0.0/8"],
            },
            "The addresses of the network: all others are in the Internet.",
            |it| Value::Text(it.internet.manet.to_string()),
            |it, to| {
                if let Ok(prefix) = manet(to.text()) {
                    it.internet.manet = prefix;
                }
            },
        ),
        Parameter::new(
            "gateway",
            Kind::Flag,
            "Whether this node answers for the Internet.",
            |it| it.internet.gateway.into(),
            |it, to| it.internet.gateway = to.flag(),
        ),
        Parameter::new(
            "reuse-gateway",
            Kind::Flag,
            "Whether a gateway in use serves further Internet hosts without being asked again.",
            |it| it.internet.reuse_gateway.into(),
            |it, to| it.internet.reuse_gateway = to.flag(),
        ),
        Parameter::new(
            "routes",
            MANY,
            "Routes remembered, those that ended included.",
            |it| count(it.bounds.routes),
            |it, to| it.bounds.routes = to.count(),
        ),
        Parameter::new(
            "precursors",
            MANY,
            "Neighbours remembered that use a route, for each.",
            |it| count(it.bounds.precursors),
            |it, to| it.bounds.precursors = to.count(),
        ),
        Parameter::new(
            "requests",
            MANY,
            "Requests remembered.",
            |it| count(it.bounds.requests),
            |it, to| it.bounds.requests = to.count(),
        ),
        Parameter::new(
            "discoveries",
            MANY,
            "Destinations looked for at a time.",
            |it| count(it.bounds.discoveries),
            |it, to| it.bounds.discoveries = to.count(),
        ),
        Parameter::new(
            "neighbours",
            MANY,
            "Neighbours remembered.",
            |it| count(it.bounds.neighbours),
            |it, to| it.bounds.neighbours = to.count(),
        ),
        Parameter::new(
            "internet-hosts",
            MANY,
            "Internet hosts remembered.",
            |it| count(it.bounds.internet),
            |it, to| it.bounds.internet = to.count(),
        ),
        Parameter::new(
            "messages",
            MANY,
            "Messages that wait to be sent on an interface.",
            |it| count(it.bounds.messages),
            |it, to| it.bounds.messages = to.count(),
        ),
        Parameter::new(
            "neighbour-rate",
            RATE,
            "Requests in a second that are taken from a neighbour, and as many replies and errors.",
            |it| it.bounds.neighbour_rate.into(),
            |it, to| it.bounds.neighbour_rate = to.count(),
        ),
    ],
    rules: &[
        Rule {
            names: &["delete-period", "active-route-timeout"],
            allowed: "delete-period is at least active-route-timeout",
            holds: |it| it.delete_period >= it.active_route_timeout,
        },
        Rule {
            names: &["ring.start", "ring.threshold", "net-diameter"],
            allowed: "ring.start and ring.threshold are at most net-diameter",
            holds: |it| it.ring.start.max(it.ring.threshold) <= it.net_diameter,
        },
    ],
};

const HOUR: Duration = Duration::from_secs(3_600);
const TIMEOUT: Kind = Kind::Period { least: Duration::from_millis(100), most: HOUR };
const HOPS: Kind = Kind::Count { least: 1, most: 255, unit: "hops" };
const RATE: Kind = Kind::Count { least: 1, most: 10_000, unit: "a second" };
const MANY: Kind = Kind::Count { least: 1, most: 1_000_000, unit: "" };

fn manet(text: &str) -> Result<Prefix, String> {
    match text.parse::<Prefix>() {
        Ok(prefix) if prefix.address().is_ipv4() => Ok(prefix.network()),
        _ => Err(format!("\"{text}\" is not allowed: an IPv4 prefix, such as \"10.0.0.0/8\"")),
    }
}

fn count(number: usize) -> Value {
    Value::Count(u64::try_from(number).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::new(profile)));
    }
}

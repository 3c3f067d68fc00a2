//! Reports the state of the tunnels to an operator.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::counter::{Countable as _, Counter};
use base::time::Time;
use host::fault::{self, Fault};
use host::{IN_CLEAR, MARK};
use serde::Serialize;
use tunnel::secure;
use tunnel::{Estimates, PathId, Stats};

use super::sockets::Sockets;
use super::state::{Link, Naming};
use super::{Shared, lock};
use crate::service::{Entry, Report, Sample, entries, of_counters, rounded};

/// One tunnel.
#[derive(Serialize)]
struct Status<'a> {
    peer: &'a str,
    /// What the peer has proved itself with last, or is known by.
    public_key: String,
    /// Our key in the last handshake.
    own_public_key: Option<String>,
    /// The networks behind the peer.
    routes: Vec<String>,
    state: &'static str,
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    ages: Ages,
    sessions: u64,
    #[serde(flatten)]
    path: Path,
    /// Each path, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<OnePath>,
    redundancy: f64,
    #[serde(flatten)]
    left: Left,
    mtu: usize,
    #[serde(flatten)]
    stats: Stats,
    handshakes: secure::Stats,
}

/// Where the peer is.
#[derive(Serialize)]
struct Place {
    /// The address in use.
    endpoint: Option<SocketAddr>,
    /// Our address to which the peer sends.
    local: Option<SocketAddr>,
    /// The peer's name for calls, with the port.
    endpoint_name: Option<String>,
    /// Why the name was not found when it was asked for last.
    endpoint_failure: Option<String>,
}

/// How long ago something was, in seconds; `None` if never.
#[derive(Serialize)]
struct Ages {
    /// Age of the current state.
    state_age_s: f64,
    heard_age_s: Option<f64>,
    handshake_age_s: Option<f64>,
}

/// Measurements of the path; losses are before repair.
#[derive(Serialize)]
struct Path {
    rtt_ms: f64,
    rate_bit_s: f64,
    loss: f64,
    loss_in: f64,
    burst: f64,
    queued_octets: usize,
    unacknowledged: usize,
    /// Octets of the longest packet that is not cut.
    whole: usize,
    path_mtu: usize,
}

/// One of several paths.
#[derive(Serialize)]
struct OnePath {
    /// Its place; 0 is the path that routes choose.
    path: usize,
    state: &'static str,
    /// Why it has to wait.
    waits_for: Option<String>,
    /// The configured interface.
    interface: Option<String>,
    /// Our address there, or the configured one.
    local: Option<IpAddr>,
    endpoint: Option<SocketAddr>,
    is_backup: bool,
    rtt_ms: f64,
    rate_bit_s: f64,
    loss: f64,
    loss_in: f64,
    mtu: usize,
    octets_sent: u64,
    octets_received: u64,
}

/// Losses after repair: what was given up, for each source, since the session began.
#[derive(Serialize)]
struct Left {
    loss_left: f64,
    loss_left_in: f64,
}

impl Shared {
    /// How the tunnels are, together and each.
    pub fn report(&self) -> Report {
        let (mut faults, kept_out) = {
            let reconciler = lock(&self.reconciler);
            (reconciler.faults(), reconciler.kept_out())
        };
        faults.extend(self.in_clear().map(|said| Fault::new(&fault::BESIDE, said)));
        faults.extend(self.looped());
        let state = self.state();
        let now = self.now();
        let mut counters = entries("tunnel_", &self.counters);
        counters.extend(of_counters("tunnel_", [(&IN_CLEAR, kept_out)]));
        counters.extend(entries("secure_", &state.peers().totals()));
        let mut samples = Vec::new();
        let mut tunnels = Vec::new();
        for link in state.links() {
            let status = status(now, state.peers(), &self.sockets, link);
            faults.extend(nameless(&status));
            faults.extend(status.paths.iter().filter_map(|path| waiting(status.peer, path)));
            note(&status, &mut samples);
            tunnels.push(status);
        }
        Report { samples, faults, ..Report::new(counters, "tunnels", &tunnels) }
    }

    /// The fault that datagrams to peers are led into the tunnel itself.
    fn looped(&self) -> Option<Fault> {
        let mut looped = lock(&self.looped);
        looped.follow(self.now(), self.counters.datagrams_looped.value());
        looped.is_lasting().then(|| {
            let said = format!(
                "datagrams to peers come back into the tunnel, and are dropped: a firewall changes their mark {MARK:#x} \
                 where this host sends them; `nft list ruleset` and `iptables-save -t mangle` show rules of output that \
                 set marks, which packets with this mark must pass unchanged"
            );
            Fault::new(&fault::OVERRULED, said)
        })
    }
}

/// The fault that nobody knows the address of a peer that is not heard.
fn nameless(status: &Status<'_>) -> Option<Fault> {
    let Place { endpoint_name: Some(name), endpoint_failure: Some(why), .. } = &status.place else {
        return None;
    };
    let peer = status.peer;
    let said = format!(
        "the peer {peer} is not found by its name {name}: {why}; `getent hosts` asks as the gateway does"
    );
    let fault = Fault { peer: Some(peer.to_owned()), ..Fault::new(&fault::NAME, said) };
    (status.state != "up").then_some(fault)
}

/// The fault that a path has to wait for something of this host.
fn waiting(peer: &str, path: &OnePath) -> Option<Fault> {
    let OnePath { path, waits_for: Some(why), .. } = path else { return None };
    let said = format!("path {path} to the peer {peer} waits: {why}");
    Some(Fault { peer: Some(peer.to_owned()), ..Fault::new(&fault::PATH, said) })
}

fn status<'a>(now: Time, peers: &secure::Peers, sockets: &Sockets, link: &'a Link) -> Status<'a> {
    let core = link.core();
    let stats = core.map(tunnel::Tunnel::stats).unwrap_or_default();
    let estimates = core.map(tunnel::Tunnel::estimates).unwrap_or_default();
    let Estimates { rtt, rate, loss, loss_in, burst, queued, unacknowledged, path_mtu, whole } =
        estimates;
    let age = |since: Time| seconds(now.since(since));
    let peer = link.peer();
    let used = peers.used_keys(peer);
    let (state, since) = link.condition(peers.has_session(now, peer));
    Status {
        peer: &link.config().name,
        public_key: used.map_or(link.keys().public_key, |(_, its)| its).to_string(),
        own_public_key: used.map(|(own, _)| own.to_string()),
        routes: link.config().routes.iter().map(ToString::to_string).collect(),
        state,
        place: Place {
            endpoint: peers.endpoint(peer),
            local: link.way().map(|way| sockets.local(way)),
            endpoint_name: link.naming().map(Naming::text),
            endpoint_failure: link.naming().and_then(Naming::failure).map(|why| why.to_string()),
        },
        ages: Ages {
            state_age_s: age(since),
            heard_age_s: peers.last_heard(peer).map(age),
            handshake_age_s: peers.last_handshake(peer).map(age),
        },
        sessions: link.sessions(),
        path: Path {
            rtt_ms: rounded(rtt.as_secs_f64() * 1e3, 3),
            rate_bit_s: rounded(rate, 0),
            loss: rounded(loss, 4),
            loss_in: rounded(loss_in, 4),
            burst: rounded(burst, 1),
            queued_octets: queued,
            unacknowledged,
            whole,
            path_mtu,
        },
        paths: paths(peers, sockets, link),
        redundancy: redundancy(&stats),
        left: left(&stats),
        mtu: core.map_or(0, tunnel::Tunnel::mtu),
        stats,
        handshakes: peers.stats(peer),
    }
}

/// The paths to a peer if there are several: the session's and the configured ones.
fn paths(peers: &secure::Peers, sockets: &Sockets, link: &Link) -> Vec<OnePath> {
    let known = link.core().map(tunnel::Tunnel::paths).unwrap_or_default();
    let configured = &link.config().paths;
    let count = known.len().max(configured.len() + 1);
    if count == 1 {
        return Vec::new();
    }
    let has_other = known.iter().any(|it| it.serves && !it.is_backup);
    let of_path = |path: PathId| {
        let known = known.get(path.index());
        let noted = &link.paths()[path.index()];
        let config = path.index().checked_sub(1).and_then(|place| configured.get(place));
        let is_first = path == PathId::FIRST;
        let state = match known {
            _ if noted.why().is_some() => "waiting",
            None => "no session",
            Some(it) if !it.is_proved => "not proved",
            Some(it) if !it.serves => "silent",
            Some(it) if it.is_backup && has_other => "backup",
            Some(_) => "serves",
        };
        let way = if is_first { link.way() } else { noted.way() };
        let local = way.map(|way| sockets.local(way).ip()).filter(|ip| !ip.is_unspecified());
        let [octets_sent, octets_received] = noted.octets();
        OnePath {
            path: path.index(),
            state,
            waits_for: noted.why().map(str::to_owned),
            interface: config.and_then(|config| config.interface.clone()),
            local: local.or(config.and_then(|config| config.local)),
            endpoint: match path {
                PathId::FIRST => peers.endpoint(link.peer()),
                _ => peers.further(link.peer(), path),
            },
            is_backup: known.map_or(config.is_some_and(|it| it.is_backup), |it| it.is_backup),
            rtt_ms: known.map_or(0.0, |it| rounded(it.rtt.as_secs_f64() * 1e3, 3)),
            rate_bit_s: known.map_or(0.0, |it| rounded(it.rate, 0)),
            loss: known.map_or(0.0, |it| rounded(it.loss, 4)),
            loss_in: known.map_or(0.0, |it| rounded(it.loss_in, 4)),
            mtu: known.map_or(0, |it| it.mtu),
            octets_sent,
            octets_received,
        }
    };
    PathId::all().take(count).map(of_path).collect()
}

/// The same as samples.
fn note(status: &Status<'_>, samples: &mut Vec<Sample>) {
    let mut add = |name: String, counter: &'static Counter, value: f64| {
        let of = ("peer", status.peer.to_owned());
        samples.push(Sample { name: format!("tunnel_{name}"), counter, of, value });
    };
    let mut sample =
        |counter: &'static Counter, value| add(counter.name.to_owned(), counter, value);
    let Status { state, ages, path, left, .. } = status;
    sample(
        const { &Counter::gauge("up", "tunnels", "Whether the tunnel is up.") },
        f64::from(u8::from(*state == "up")),
    );
    sample(
        const { &Counter::gauge("silent", "tunnels", "Whether the peer is silent.") },
        f64::from(u8::from(*state == "silent")),
    );
    sample(
        const {
            &Counter::gauge(
                "state_age_seconds",
                "seconds",
                "How long the tunnel has been in its state.",
            )
        },
        ages.state_age_s,
    );
    // What never was has no age.
    let heard = const {
        &Counter::gauge("heard_age_seconds", "seconds", "How long ago the peer was heard.")
    };
    let handshake = const {
        &Counter::gauge("handshake_age_seconds", "seconds", "How long ago keys were agreed on.")
    };
    for (counter, age) in [(heard, ages.heard_age_s), (handshake, ages.handshake_age_s)] {
        if let Some(age) = age {
            sample(counter, age);
        }
    }
    sample(
        const { &Counter::gauge("rtt_seconds", "seconds", "The smoothed round trip.") },
        rounded(path.rtt_ms / 1e3, 6),
    );
    sample(
        const {
            &Counter::gauge(
                "rate_bits_per_second",
                "bits",
                "The rate that the path has delivered lately, in bits a second of outer IP packets.",
            )
        },
        path.rate_bit_s,
    );
    sample(
        const {
            &Counter::gauge(
                "loss_ratio",
                "datagrams",
                "The share of datagrams to the peer that are lost.",
            )
        },
        path.loss,
    );
    sample(
        const {
            &Counter::gauge(
                "loss_in_ratio",
                "datagrams",
                "The share of datagrams of the peer that are lost.",
            )
        },
        path.loss_in,
    );
    sample(
        const {
            &Counter::gauge(
                "loss_left_ratio",
                "sources",
                "The share of sources to the peer given up after repair.",
            )
        },
        left.loss_left,
    );
    sample(
        const {
            &Counter::gauge(
                "loss_left_in_ratio",
                "sources",
                "The share of sources of the peer given up after repair.",
            )
        },
        left.loss_left_in,
    );
    sample(
        const { &Counter::gauge("burst_datagrams", "datagrams", "The mean length of a run of losses.") },
        path.burst,
    );
    sample(
        const { &Counter::gauge("redundancy_ratio", "repairs", "Repairs sent for each source.") },
        status.redundancy,
    );
    sample(
        const { &Counter::gauge("queued_octets", "octets", "Octets that wait to be sent.") },
        path.queued_octets as f64,
    );
    sample(
        const { &Counter::gauge("unacknowledged", "sources", "Sources that are not acknowledged.") },
        path.unacknowledged as f64,
    );
    sample(
        const { &Counter::gauge("mtu_octets", "octets", "The longest packet that the device takes.") },
        status.mtu as f64,
    );
    sample(
        const { &Counter::gauge("path_mtu_octets", "octets", "The greatest outer IP packet.") },
        path.path_mtu as f64,
    );
    sample(
        const { &Counter::counter("sessions", "sessions", "Sessions with the peer.") },
        status.sessions as f64,
    );
    let counted = [entries("", &status.stats), entries("handshake_", &status.handshakes)];
    for Entry { name, counter, value } in counted.into_iter().flatten() {
        add(name, counter, value as f64);
    }
}

fn seconds(span: Duration) -> f64 {
    rounded(span.as_secs_f64(), 1)
}

/// Sources sent again and repairs, for each source.
fn redundancy(stats: &Stats) -> f64 {
    ratio(stats.sent.sources_resent + stats.sent.repairs_sent, stats.sent.sources_sent)
}

fn left(stats: &Stats) -> Left {
    let lost = stats.received.sources_given_up;
    let came = stats.received.sources_received + stats.received.sources_recovered;
    Left {
        loss_left: ratio(stats.sent.sources_expired, stats.sent.sources_sent),
        loss_left_in: ratio(lost, came + lost),
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { rounded(part as f64 / whole as f64, 6) }
}

//! What a picture holds is what happened, and no more octets than allowed.

use std::io::Read as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use manet::aodv;
use proptest::prelude::*;
use sim::app::transfer;
use sim::mobility::{Motion, Position};
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{Change, InterfaceConfig, NodeId, PortId, Prefix, World};

use super::*;

#[test]
fn what_is_read_is_what_was_written() {
    let recording = busy(5, 20, 3_000);

    let read = decode(&encode(&recording), &recording);

    assert_eq!(read.nodes, recording.nodes);
    assert_eq!(read.wires, recording.wires);
    assert_eq!(read.routes, recording.routes);
    assert_eq!(read.samples, recording.samples);
    assert_eq!(read.frames, recording.frames);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_frames_come_back(
        frames in prop::collection::vec(
            (0_u64..5_000_000, 0_u64..900_000, 0_usize..5, prop::option::of(0_usize..5), 0_usize..5, any::<bool>()),
            0..40,
        ),
    ) {
        let mut recording = busy(5, 1, 0);
        let mut now = Time::ZERO;
        for (pause, took, from, to, kind, is_lost) in frames {
            now += Duration::from_micros(pause);
            let end = now + Duration::from_micros(took);
            let kind = [Kind::Data, Kind::Ack, Kind::Routing, Kind::Hop, Kind::Other][kind];
            let frame = Frame { start: now, end, from, to, kind, flow: None, is_lost };
            recording.frames.add(frame, usize::MAX);
        }

        let read = decode(&encode(&recording), &recording);

        prop_assert_eq!(read.frames, recording.frames);
    }
}

#[test]
fn a_page_is_no_longer_than_allowed_and_says_how_many_frames_it_has() {
    let recording = busy(48, 60, 60_000);
    let whole = to_html(recording.clone(), usize::MAX);
    let empty = Recording { frames: Frames::default(), ..recording.clone() };
    let data = |page: &str| between(page, "id=\"data\">", "</script>").len();
    let allowed = usize::midpoint(data(&whole), data(&to_html(empty, usize::MAX)));

    let short = to_html(recording.clone(), allowed);

    let shown = |page: &str| {
        let head = between(page, "id=\"head\">", "</script>");
        let head: serde_json::Value = serde_json::from_str(head).unwrap();
        [&head["frames"]["total"], &head["frames"]["shown"]].map(|it| it.as_u64().unwrap())
    };
    assert_eq!(shown(&whole), [60_000, 60_000]);
    let [total, few] = shown(&short);
    assert!(total == 60_000 && (1_000..60_000).contains(&few), "{few}");
    assert!(data(&short) <= allowed, "{} > {allowed}", data(&short));
    let packed = STANDARD.decode(between(&short, "id=\"data\">", "</script>")).unwrap();
    let read = decode(&packed, &recording);
    assert_eq!(read.frames.shown.len() as u64, few);
    assert_eq!(read.routes, recording.routes, "only frames are thinned");
}

#[test]
fn a_page_needs_nothing_but_itself_and_takes_names_as_text() {
    let mut recording = busy(5, 20, 100);
    recording.title = "</script><b>{{data}}".to_owned();
    recording.nodes[0].name = "</script><i>".to_owned();

    let page = to_html(recording.clone(), usize::MAX);
    let looping = to_looping_svg(&recording);

    for resource in [" src=", "<link", "@import", "url(", "//cdn", "fetch(", "https:", "XMLHttp"] {
        assert!(!page.contains(resource), "{resource} asks for something else");
        assert!(!looping.contains(resource), "{resource} asks for something else");
    }
    for own in ["<b>", "<i>"] {
        assert!(!page.contains(own) && !looping.contains(own), "{own} is not escaped");
    }
    assert_eq!(page.matches("</script>").count(), 3, "the page's own");
    assert!(page.contains("&lt;/script&gt;&lt;b&gt;{{data}}</title>"));
}

#[test]
fn a_picture_is_a_function_of_its_recording() {
    let pictures = || {
        let mut recording = busy(12, 30, 2_000);
        recording.frames.thin();
        [to_looping_svg(&recording), to_html(recording, usize::MAX)]
    };

    assert_eq!(pictures(), pictures());
}

#[test]
fn a_recorder_sees_radios_routes_frames_and_what_arrives() {
    let mut world = World::new(1);
    let radio = world.add_radio(sim::radio::Config::default());
    let at = |second| Time::ZERO + Duration::from_secs(second);
    let mut walks = Motion::at_rest(Position::new(0.0, 200.0));
    walks.go(at(3), at(23), Position::new(400.0, 200.0)).unwrap();
    let motions = [[0.0, 0.0], [200.0, 0.0], [400.0, 0.0]]
        .map(|[x, y]| Motion::at_rest(Position::new(x, y)))
        .into_iter()
        .chain([walks.clone()]);
    let names = ["left", "middle", "right", "walks"];
    let nodes: Vec<NodeId> = names.iter().map(|name| world.add_node(name)).collect();
    let interface = InterfaceConfig::default();
    let ports = nodes.iter().zip(motions);
    let ports: Vec<PortId> = ports
        .map(|(node, motion)| world.add_radio_station(radio, *node, motion, interface))
        .collect();
    let host = world.add_node("host");
    world.connect(nodes[1], host, &sim::LinkConfig::default());
    for second in 0..30 {
        world.at(at(second), Change::AutoRoutes);
    }
    world.at(at(25), Change::RadioOff(ports[0]));
    let destination = SocketAddr::new(world.address(host).unwrap(), 9);
    let sender = transfer::SenderConfig::new(destination, 2_000_000);
    world.add_app(nodes[3], transfer::Sender::new(sender));
    let sink = world.add_app(host, transfer::Sink::new(transfer::SinkConfig::new(9)));
    world.run_until(at(2));
    let cast = Cast {
        nodes: nodes
            .iter()
            .chain([&host])
            .copied()
            .zip(names.map(String::from).into_iter().chain(["host".to_owned()]))
            .collect(),
        wires: vec![Wire { ends: [1, 4], label: "wire".to_owned(), down: Vec::new() }],
        flows: vec![Flow { name: "up".to_owned(), from: 3, to: 4 }],
    };
    let limits = Limits { frames: 4_000, routes: 1_000 };

    let before = world.transfer_sink(sink).unwrap().octets;
    let mut recorder = Recorder::new(&mut world, cast, &[before], limits);
    while world.now() < at(30) {
        let next = (world.now() + recorder.stride()).min(at(30));
        world.run_until(next);
        let octets = world.transfer_sink(sink).unwrap().octets;
        recorder.look(&mut world, &[octets]);
    }
    let octets = world.transfer_sink(sink).unwrap().octets;
    let recording = recorder.finish(&mut world, &[octets]);

    assert_eq!(recording.duration, Duration::from_secs(28));
    // Time 0 of the recording is 2 s after that of the world.
    for second in [2, 3, 10, 29] {
        let now = Time::ZERO + Duration::from_secs(second - 2);
        let away =
            recording.nodes[3].motion.position(now).distance_squared(walks.position(at(second)));
        assert!(away < 1e-6, "{away}");
    }
    assert!(recording.nodes[3].is_placed && !recording.nodes[4].is_placed);
    let off = |node: usize| recording.nodes[node].radio.as_ref().unwrap().off.clone();
    assert_eq!((off(1), off(0).len()), (vec![], 1));
    assert!(off(0)[0].start >= at(23) && off(0)[0].start < at(24) && off(0)[0].end == at(28));
    let hops = super::ways::ways(&recording, &recording.flows[0]);
    let hops: Vec<usize> = hops.iter().map(|way| way.nodes.len().saturating_sub(1)).collect();
    assert_eq!(hops, [3, 2, 3], "by the left node, straight to the middle one, by the right one");
    let frames = &recording.frames;
    assert!(frames.shown.len() <= 4_000 && frames.total > 10_000, "{}", frames.total);
    assert!(frames.shown.is_sorted_by_key(|frame| frame.start));
    let count = |kind, flow, to_host| {
        let is_one =
            |it: &&Frame| it.kind == kind && it.flow == flow && (it.to == Some(4)) == to_host;
        frames.shown.iter().filter(is_one).count()
    };
    let [data, acks] = [Some((0, false)), Some((0, true))];
    assert!(count(Kind::Data, data, true) > 50, "on the wire");
    assert!(count(Kind::Data, data, false) > 50 && count(Kind::Ack, acks, false) > 50);
    assert!(count(Kind::Hop, None, false) > 3 * count(Kind::Data, data, false), "RTS, CTS, ACK");
    let sum: u64 = recording.samples.received[0].iter().sum();
    assert_eq!(sum, octets - before);
}

#[test]
fn what_goes_through_a_half_tunnel_is_seen_as_what_it_carries_and_its_way_as_one() {
    let mut world = World::new(1);
    let names = ["n0", "n1", "gateway", "host"];
    let nodes: Vec<NodeId> = names.iter().map(|name| world.add_node(name)).collect();
    // The gateway's first address is not in the MANET.
    world.connect(nodes[2], nodes[3], &sim::LinkConfig::default());
    let radio = world.add_radio(sim::radio::Config::default());
    for (node, x) in nodes.iter().zip([0.0, 200.0, 400.0]) {
        let motion = Motion::at_rest(Position::new(x, 0.0));
        world.add_radio_station(radio, *node, motion, InterfaceConfig::default());
    }
    world.auto_routes_of_links();
    let [manet, host] = [0, 3].map(|node: usize| world.address(nodes[node]).unwrap());
    let manet = Prefix::new(manet, 24).unwrap();
    for (index, node) in nodes[..3].iter().enumerate() {
        let mut config = aodv::Config { wait_after_reboot: false, ..aodv::Config::default() };
        (config.internet.manet, config.internet.gateway) = (manet, index == 2);
        world.enable_routing(*node, &RoutingConfig::new(RoutingProtocol::Aodv(config)), &[]);
    }
    world.route(nodes[3], manet, nodes[2], 1);
    let sender = transfer::SenderConfig::new(SocketAddr::new(host, 9), 50_000);
    world.add_app(nodes[0], transfer::Sender::new(sender));
    world.add_app(nodes[3], transfer::Sink::new(transfer::SinkConfig::new(9)));
    let cast = Cast {
        nodes: nodes.into_iter().zip(names.map(String::from)).collect(),
        flows: vec![Flow { name: "up".to_owned(), from: 0, to: 3 }],
        ..Cast::default()
    };

    let mut recorder = Recorder::new(&mut world, cast, &[0], Limits::default());
    for _ in 0..100 {
        world.run_until(world.now() + recorder.stride());
        recorder.look(&mut world, &[0]);
    }
    let recording = recorder.finish(&mut world, &[0]);

    assert_eq!(recording.targets, [0, 3, 2], "the gateway, which no flow goes to, is found");
    let ways = super::ways::ways(&recording, &recording.flows[0]);
    assert_eq!(ways.last().unwrap().nodes, [0, 1, 2, 3]);
    let seen = |from, to, kind, back| {
        let shown = recording.frames.shown.iter();
        shown
            .filter(|it| (it.from, it.to) == (from, Some(to)) && it.kind == kind)
            .filter(|it| it.flow == Some((0, back)))
            .count()
    };
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        assert!(seen(from, to, Kind::Data, false) >= 35, "data from {from} to {to}");
        assert!(seen(to, from, Kind::Ack, true) > 10, "acknowledgements from {to} to {from}");
    }
    assert!(recording.frames.shown.iter().all(|frame| frame.kind != Kind::Other));
}

/// Nodes that walk about and send as fast as a radio lets them, on one wire too.
fn busy(nodes: usize, seconds: u64, frames: usize) -> Recording {
    let mut rng = Rng::stream(1, "a busy recording");
    let duration = Duration::from_secs(seconds);
    let at = |seconds: f64| Time::ZERO + Duration::from_secs_f64(seconds).min(duration);
    let place = |rng: &mut Rng| {
        let [x, y] = [(); 2].map(|()| f64::from(u32::try_from(rng.below(80_000)).unwrap()) / 100.0);
        Position::new(x, y)
    };
    let node = |index: usize| {
        let mut motion = Motion::at_rest(place(&mut rng));
        let mut now = 1.0;
        while now < duration.as_secs_f64() {
            motion.go(at(now), at(now + 4.0), place(&mut rng)).unwrap();
            now += 9.0;
        }
        let off: Vec<Range<Time>> = if index == 1 { vec![at(0.5)..at(0.75)] } else { Vec::new() };
        Node {
            name: format!("n{index}"),
            motion,
            is_placed: true,
            radio: Some(Radio { range: 250.0, off }),
        }
    };
    let mut recording = Recording {
        title: "busy".to_owned(),
        duration,
        nodes: (0..nodes).map(node).collect(),
        wires: vec![Wire {
            ends: [0, 1],
            label: "100 Mbit/s, 2 ms".to_owned(),
            down: vec![at(0.1)..at(0.2), at(0.4)..at(1.0)],
        }],
        flows: vec![Flow { name: "up".to_owned(), from: 0, to: nodes - 1 }],
        targets: vec![0, nodes - 1],
        ..Recording::default()
    };
    let mut random = |limit: usize| usize::try_from(rng.below(limit as u64)).unwrap();
    for change in 0..seconds * 10 {
        let (node, target) = (random(nodes), random(2));
        let via = Some(random(nodes)).filter(|via| *via != node);
        let at = at(change as f64 / 10.0);
        let tunnel = Some(random(3)).filter(|end| *end < 2);
        recording.routes.push(RouteChange { at, node, target, via, tunnel });
    }
    let mut sampler = Sampler::new(Time::ZERO, Duration::from_millis(20), 2_048, 1, nodes);
    for step in 1..=seconds * 50 {
        let sample = |_| NodeSample {
            waiting: random(8) as u64,
            sent: random(4) as u64,
            lost: random(2) as u64,
            dropped: 0,
        };
        let samples: Vec<NodeSample> = (0..nodes).map(sample).collect();
        sampler.add(at(step as f64 / 50.0), &[random(2) as u64 * 1_460], &samples);
    }
    recording.samples = sampler.finish();
    let mut now = Time::ZERO;
    let step = usize::try_from(duration.as_micros()).unwrap() / frames.max(1);
    while recording.frames.total < frames as u64 {
        let (from, to) = (random(nodes), random(nodes));
        // RTS, CTS, data, acknowledgement.
        let exchange = [(from, to, Kind::Hop, 352), (to, from, Kind::Hop, 304)];
        let data = [(from, to, Kind::Data, 6_328), (to, from, Kind::Hop, 304)];
        for (from, to, kind, micros) in exchange.into_iter().chain(data) {
            let end = now + Duration::from_micros(micros);
            let flow = (kind == Kind::Data).then_some((0, false));
            let is_lost = random(20) == 0;
            let frame = Frame { start: now, end, from, to: Some(to), kind, flow, is_lost };
            recording.frames.add(frame, usize::MAX);
            now += Duration::from_micros((step / 2 + random(step)) as u64);
        }
    }
    recording
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

/// Reads what `encode` has written; what stands in JSON comes from `known`.
fn decode(packed: &[u8], known: &Recording) -> Recording {
    let mut octets = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut octets).unwrap();
    let mut reader = Reader(octets.into_iter());
    let mut read = known.clone();
    for node in &mut read.nodes {
        node.motion = reader.motion();
        let off = reader.spans();
        if let Some(radio) = &mut node.radio {
            radio.off = off;
        }
    }
    for wire in &mut read.wires {
        wire.down = reader.spans();
    }
    read.routes = reader.routes();
    let count = reader.index();
    for series in &mut read.samples.received {
        *series = reader.column(count);
    }
    for node in &mut read.samples.nodes {
        let [waiting, sent, lost, dropped] = [(); 4].map(|()| reader.column(count));
        let sample = |n: usize| NodeSample {
            waiting: waiting[n],
            sent: sent[n],
            lost: lost[n],
            dropped: dropped[n],
        };
        *node = (0..count).map(sample).collect();
    }
    read.frames.shown = reader.frames();
    assert_eq!(reader.0.next(), None, "nothing is left");
    read
}

struct Reader(std::vec::IntoIter<u8>);

impl Reader {
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let octet = self.0.next().unwrap();
            number |= u64::from(octet & 0x7f) << shift;
            shift += 7;
            if octet < 0x80 {
                return number;
            }
        }
    }

    fn index(&mut self) -> usize {
        usize::try_from(self.number()).unwrap()
    }

    fn column(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.number()).collect()
    }

    fn option(number: u64) -> Option<usize> {
        usize::try_from(number).unwrap().checked_sub(1)
    }

    fn signed(&mut self) -> i64 {
        let folded = self.number();
        (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed()
    }

    fn micros(&mut self) -> Duration {
        Duration::from_micros(self.number())
    }

    fn times(&mut self, count: usize) -> Vec<Time> {
        let mut now = Time::ZERO;
        let time = |_| {
            now += self.micros();
            now
        };
        (0..count).map(time).collect()
    }

    fn spans(&mut self) -> Vec<Range<Time>> {
        let count = self.index();
        let mut now = Time::ZERO;
        let span = |_| {
            let start = now + self.micros();
            now = start + self.micros();
            start..now
        };
        (0..count).map(span).collect()
    }

    fn place(&mut self, from: [i64; 2]) -> [i64; 2] {
        from.map(|part| part + self.signed())
    }

    fn motion(&mut self) -> Motion {
        let position = |[x, y]: [i64; 2]| {
            let [x, y] = [x, y].map(|part| f64::from(i32::try_from(part).unwrap()) / 100.0);
            Position::new(x, y)
        };
        let mut at = self.place([0, 0]);
        let mut motion = Motion::at_rest(position(at));
        let mut now = Time::ZERO;
        for _ in 0..self.index() {
            let start = now + self.micros();
            now = start + self.micros();
            at = self.place(at);
            motion.go(start, now, position(at)).unwrap();
        }
        motion
    }

    fn routes(&mut self) -> Vec<RouteChange> {
        let count = self.index();
        let times = self.times(count);
        let [nodes, targets, vias, tunnels] = [(); 4].map(|()| self.column(count));
        let change = |n: usize| RouteChange {
            at: times[n],
            node: usize::try_from(nodes[n]).unwrap(),
            target: usize::try_from(targets[n]).unwrap(),
            via: Self::option(vias[n]),
            tunnel: Self::option(tunnels[n]),
        };
        (0..count).map(change).collect()
    }

    fn frames(&mut self) -> Vec<Frame> {
        let count = self.index();
        let starts = self.times(count);
        let [took, from, to, kinds, flows] = [(); 5].map(|()| self.column(count));
        let kind = |number: u64| {
            let kinds = [Kind::Data, Kind::Ack, Kind::Routing, Kind::Hop, Kind::Other];
            kinds[usize::try_from(number & 7).unwrap()]
        };
        let frame = |n: usize| Frame {
            start: starts[n],
            end: starts[n] + Duration::from_micros(took[n]),
            from: usize::try_from(from[n]).unwrap(),
            to: Self::option(to[n]),
            kind: kind(kinds[n]),
            flow: Self::option(flows[n]).map(|flow| (flow / 2, flow % 2 == 1)),
            is_lost: kinds[n] & 8 != 0,
        };
        (0..count).map(frame).collect()
    }
}

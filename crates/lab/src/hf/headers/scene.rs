//! Two stations with IP clients, a host behind each, and the hosts' traffic.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use hf::s5066::node::{FrameKind, Record};
use sim::app::echo::Echo;
use sim::app::ping::Ping;
use sim::app::{stream, transfer};
use sim::hf::Channel;
use sim::{AppId, HfId, HfStation, InterfaceConfig, LinkConfig, Prefix, World, channel};

use super::super::radio;
use crate::tcp::as_linux;

/// When the measurement begins: the stations have met before, and that link is down again.
const BEGIN: Time = Time::from_nanos(1_200 * 1_000_000_000);
const LIMIT: Duration = Duration::from_secs(4 * 3_600);
const PORT: u16 = 4_000;
/// The port of the first message, by which the stations meet.
const FIRST_PORT: u16 = 4_001;
/// Messages of a burst, and messages sent one by one.
const BURST: u64 = 60;
const LONE: u64 = 20;
const EVERY: Duration = Duration::from_secs(60);
/// Octets of the sender's socket buffer.
const BUFFER: usize = 64 << 10;

/// The traffic from one host to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Messages that are all there at the beginning, with so much payload.
    Burst(usize),
    /// A message a minute.
    Lone(usize),
    /// A message a minute that is answered.
    Asked(usize),
    /// So many octets by TCP.
    Transfer(u64),
}

/// A load over stations at a speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    pub speed: u32,
    pub load: Load,
    pub is_compressed: bool,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Octets of frames on the air, of both stations and without padding, for each message or transfer.
    pub octets: f64,
    /// Seconds that each message took, or the transfer until it was confirmed; for a burst until the last message
    /// was there. `None` if that never was.
    pub seconds: Option<f64>,
    /// The part of the time in which the receiver's station sent data: acknowledgements, in a transfer.
    pub answers: f64,
}

impl Load {
    /// Messages, or transfers.
    pub fn count(self) -> u64 {
        match self {
            Self::Burst(_) => BURST,
            Self::Asked(_) | Self::Lone(_) => LONE,
            Self::Transfer(_) => 1,
        }
    }
}

/// A network at work.
struct Built {
    world: World,
    hf: HfId,
    sender: AppId,
    sink: AppId,
}

impl Scene {
    pub fn run(&self, seed: u64) -> Taken {
        let Built { mut world, hf, sender, sink } = self.build(seed);
        world.run_until(BEGIN);
        world.record_hf(hf);
        let count = self.load.count();
        let end = |world: &World| match self.load {
            Load::Burst(_) | Load::Lone(_) => {
                let sink = world.app::<stream::Sink>(sink).map(stream::Sink::stats)?;
                let each = match self.load {
                    Load::Burst(_) => sink.last?.since(BEGIN).as_secs_f64(),
                    _ => sink.delay.mean(),
                };
                (sink.received == count).then_some(each)
            }
            Load::Asked(_) => {
                let asked = world.app::<Ping>(sender).map(Ping::stats)?;
                (asked.answered == count).then_some(asked.rtt.mean())
            }
            Load::Transfer(_) => {
                let answered = world.transfer_sender(sender)?.answered?;
                Some(answered.since(BEGIN).as_secs_f64())
            }
        };
        world.run(BEGIN + LIMIT, |world| end(world).is_some());
        let seconds = end(&world);
        let mut octets = 0;
        let mut answering = Duration::ZERO;
        while let Some(record) = world.poll_hf_record(hf) {
            let Record::Sent { start, end, kind, octets: sent } = record.record else { continue };
            octets += if kind == FrameKind::Padding { 0 } else { sent.len() };
            if record.station.0 == 1 && matches!(kind, FrameKind::Data | FrameKind::Repeat) {
                answering += end.since(start);
            }
        }
        let whole = seconds.unwrap_or(LIMIT.as_secs_f64());
        Taken {
            octets: octets as f64 / count as f64,
            seconds,
            answers: answering.as_secs_f64() / whole,
        }
    }

    fn build(&self, seed: u64) -> Built {
        let mut world = World::new(seed);
        let [a, near, far, b] =
            ["sender", "near", "far", "receiver"].map(|name| world.add_node(name));
        world.connect(a, near, &lan());
        world.connect(far, b, &lan());
        world.auto_routes();
        let [from, to] =
            [a, b].map(|host| world.address(host).expect("a host on a LAN has an address"));
        let waveform = radio::waveform(self.speed);
        let stations =
            [(near, from), (far, to)].into_iter().zip(1..).map(|((host, behind), at)| {
                let node = radio::station(at, waveform, radio::FASTEST);
                let mut station = HfStation::new(host, node);
                let network = Prefix::new(behind, 24).expect("an address of IPv4").network();
                station.behind = vec![network];
                station.client.compress_headers = self.is_compressed;
                station
            });
        let hf = world.add_hf(radio::air(Channel::Clear, radio::FASTEST), stations.collect());
        world.route(a, Prefix::host(to), near, 0);
        world.route(b, Prefix::host(from), far, 0);

        let message = |port: u16, payload: usize| stream::SenderConfig {
            port,
            interval: EVERY,
            start: BEGIN,
            count: Some(self.load.count()),
            ..stream::SenderConfig::new(SocketAddr::new(to, port), payload)
        };
        let first = stream::SenderConfig {
            start: Time::ZERO + Duration::from_secs(1),
            count: Some(1),
            ..message(FIRST_PORT, 16)
        };
        world.add_app(a, stream::Sender::new(first));
        world.add_app(b, stream::Sink::new(FIRST_PORT));
        let (sender, sink) = match self.load {
            Load::Burst(payload) => {
                let burst = stream::SenderConfig {
                    interval: Duration::from_millis(1),
                    ..message(PORT, payload)
                };
                let sink = world.add_app(b, stream::Sink::new(PORT));
                (world.add_app(a, stream::Sender::new(burst)), sink)
            }
            Load::Lone(payload) => {
                let sink = world.add_app(b, stream::Sink::new(PORT));
                (world.add_app(a, stream::Sender::new(message(PORT, payload))), sink)
            }
            Load::Asked(payload) => {
                let sink = world.add_app(b, Echo::new(PORT));
                (world.add_app(a, Ping::new(message(PORT, payload))), sink)
            }
            Load::Transfer(octets) => {
                let tcp = tcp::Config { send_buffer: BUFFER, ..as_linux(tcp::Config::default()) };
                let sink = transfer::SinkConfig {
                    tcp,
                    confirm: Some(octets),
                    ..transfer::SinkConfig::new(PORT)
                };
                let sender = transfer::SenderConfig {
                    tcp,
                    start: BEGIN,
                    close: transfer::Close::Answered,
                    ..transfer::SenderConfig::new(SocketAddr::new(to, PORT), octets)
                };
                let sink = world.add_app(b, transfer::Sink::new(sink));
                (world.add_app(a, transfer::Sender::new(sender)), sink)
            }
        };
        Built { world, hf, sender, sink }
    }
}

/// The network of a host and its gateway: nothing is lost there.
fn lan() -> LinkConfig {
    let channel = channel::Config { delay: Duration::from_millis(1), ..channel::Config::default() };
    LinkConfig::symmetric(channel, InterfaceConfig { queue_packets: 8_192, ..Default::default() })
}

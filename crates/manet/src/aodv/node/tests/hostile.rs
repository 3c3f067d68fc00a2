//! What a forger in radio range costs: how long it takes until packets arrive again.

use super::*;

/// Values of a gateway that speaks AODV and says hello three times a second.
fn live() -> Config {
    let config = Config { wait_after_reboot: false, ..Config::hello() };
    Config { hello: Hello { interval: millis(300), ..config.hello }, ..config }
}

/// What a hostile peer sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Requests and replies about honest nodes with numbers from anywhere on the circle, and octets changed.
    Mutations,
    /// The same without changes.
    Numbers,
    /// The requests among them alone.
    Requests,
    /// Errors about all nodes, in the names of all, with such numbers.
    Errors,
    /// Requests of nodes that there are not.
    Strangers,
    /// The same in the names of ever new neighbours.
    Neighbours,
    /// Requests in the names of honest neighbours, which use up what is taken from these.
    Impostors,
}

const NUMBERS: [u32; 9] =
    [0, 1, 1_000, 0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];

/// A hostile peer beside nodes 0 and 1 of a line of three.
struct Forger {
    rng: Rng,
    count: u32,
}

impl Forger {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap()
    }

    fn number(&mut self) -> u32 {
        NUMBERS[self.below(NUMBERS.len())]
    }

    /// In whose name, whether to one node alone, and what.
    fn message(&mut self, kind: Kind) -> (Ipv4Addr, bool, Vec<u8>) {
        self.count += 1;
        let own = node(65);
        let [one, other] = [self.below(3), self.below(3)].map(node);
        let hops = u8::try_from(1 + self.below(30)).unwrap();
        let [high, low] = [self.below(250), self.below(250)].map(|it| u8::try_from(it).unwrap());
        let stranger = Ipv4Addr::new(10, 1, high, low + 1);
        let request = Request {
            join: false,
            repair: false,
            gratuitous: self.below(8) == 0,
            destination_only: self.below(2) == 0,
            hops,
            id: self.count,
            destination: other,
            destination_sequence: Some(self.number()),
            originator: one,
            originator_sequence: self.number(),
        };
        let reply = Reply {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops,
            destination: one,
            sequence: self.number(),
            originator: other,
            lifetime: Duration::from_secs(1_000),
            hello_interval: None,
            internet: None,
        };
        let (from, message) = match kind {
            Kind::Mutations | Kind::Numbers if self.below(2) == 0 => {
                (own, Message::Request(request))
            }
            Kind::Mutations | Kind::Numbers => (own, Message::Reply(reply)),
            Kind::Requests => (own, Message::Request(request)),
            Kind::Impostors => (one, Message::Request(Request { hops: 0, ..request })),
            Kind::Errors => {
                let unreachable = (0..3).map(|index| (node(index), self.number())).collect();
                let from = [own, node(0), node(1), node(2)][self.below(4)];
                let no_delete = self.below(4) == 0;
                (from, Message::Error(Errors { no_delete, unreachable }))
            }
            Kind::Strangers => (own, Message::Request(Request { originator: stranger, ..request })),
            Kind::Neighbours => {
                let request = Request { originator: stranger, hops: 0, ..request };
                (stranger, Message::Request(request))
            }
        };
        let mut octets = Vec::new();
        message.emit(&mut octets);
        if kind == Kind::Mutations {
            for _ in 0..=self.below(4) {
                let at = self.below(octets.len());
                octets[at] = u8::try_from(self.below(256)).unwrap();
            }
        }
        let is_unicast = matches!(message, Message::Reply(_)) || self.below(2) == 0;
        (from, is_unicast, octets)
    }
}

/// The longest time without a packet of node 0 at node 2, to which it sends ten a second: while a hostile
/// peer sends 10,000 messages a second, so many of each kind, and in the 30 s after that.
fn longest_gaps(kinds: &[Kind], seed: u64, each: u32) -> [Duration; 2] {
    let mut net = Net::line(3, |_| live());
    net.story = None;
    net.is_checked = false;
    let mut forger = Forger { rng: Rng::stream(seed, "forger"), count: 0 };
    net.send(0, node(2));
    net.run(Duration::from_secs(1));
    let (mut last, mut next) = (net.now, net.now);
    let mut longest = [Duration::ZERO; 2];
    let mut step = |net: &mut Net, phase: usize| {
        if net.now >= next {
            net.send(0, node(2));
            next = net.now + millis(100);
        }
        if !net.nodes[2].arrived.is_empty() {
            net.nodes[2].arrived.clear();
            last = net.now;
        }
        longest[phase] = longest[phase].max(net.now.since(last));
    };
    for kind in kinds {
        for _ in 0..each {
            let (from, is_unicast, octets) = forger.message(*kind);
            for to in [0, 1] {
                if from != node(to) {
                    net.inject_octets(from, to, is_unicast, &octets);
                }
            }
            net.run(Duration::from_micros(100));
            step(&mut net, 0);
        }
    }
    let end = net.now;
    while net.now.since(end) < Duration::from_secs(30) {
        net.run(millis(10));
        step(&mut net, 1);
    }
    longest
}

#[test]
fn a_route_is_found_within_two_seconds() {
    const MOST: Duration = Duration::from_secs(2);
    let mut late = Vec::new();
    for (kinds, each, seeds) in [
        (&[Kind::Mutations, Kind::Numbers, Kind::Errors][..], 682, 20),
        (&[Kind::Mutations], 40_000, 4),
        (&[Kind::Numbers], 40_000, 4),
        (&[Kind::Requests], 40_000, 4),
        (&[Kind::Errors], 40_000, 4),
        (&[Kind::Strangers], 40_000, 1),
        (&[Kind::Neighbours], 25_000, 1),
        (&[Kind::Impostors], 40_000, 1),
    ] {
        for seed in 0..seeds {
            let [during, after] = longest_gaps(kinds, seed, each);
            if during > MOST || after > MOST {
                late.push((kinds, seed, during, after));
            }
        }
    }

    assert!(late.is_empty(), "{late:#?}");
}

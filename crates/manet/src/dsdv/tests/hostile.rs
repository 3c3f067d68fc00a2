//! What a forger in radio range costs: how long it takes after its last word until packets arrive again.

use super::*;

/// What a hostile peer says.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Of honest nodes, with numbers from anywhere on the circle.
    Numbers,
    /// The same, of nodes that there are not too, with changed octets.
    Mutations,
    /// Odd numbers of all, in the names of all: there is no way.
    Breaks,
}

const NUMBERS: [u32; 9] =
    [0, 1, 1_000, 0x3fff_ffff, 0x7fff_fffe, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];

/// Update intervals of half a second, as a network has that is to heal within seconds.
fn quick() -> Config {
    Config {
        update_interval: Duration::from_millis(500),
        trigger_spacing: Duration::from_millis(50),
        settling: Duration::ZERO,
        start_jitter: Duration::from_millis(100),
        ..Config::default()
    }
}

/// How long after `count` messages, 10,000 a second, node 0 has no way to node 2 of a chain of three that leads there.
fn healing(config: Config, kind: Kind, seed: u64, count: u32) -> Duration {
    let mut net = Net::new(3, config, &chain(3));
    net.run(40);
    let mut rng = Rng::stream(seed, "forger");
    let mut below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
    for _ in 0..count {
        let number = NUMBERS[below(NUMBERS.len())];
        let host = u8::try_from(below(3)).unwrap();
        let (from, mut octets) = match kind {
            Kind::Numbers => (65, message(&[(host, 2, number & !1)])),
            Kind::Breaks => {
                let all = [0, 1, 2].map(|host| (host, 0, NUMBERS[below(NUMBERS.len())] | 1));
                ([65, 0, 1, 2][below(4)], message(&all))
            }
            Kind::Mutations => {
                let stranger = u8::try_from(100 + below(100)).unwrap();
                (65, message(&[(host, 2, number), (stranger, 3, number)]))
            }
        };
        if matches!(kind, Kind::Mutations) {
            let at = below(octets.len());
            octets[at] = u8::try_from(below(256)).unwrap();
        }
        for to in [0, 1] {
            if usize::from(from) != to {
                net.nodes[to].handle_message(net.now, &arrival(from), &octets);
            }
        }
        net.run_to(net.now + Duration::from_micros(100));
    }
    let end = net.now;
    while net.path(0, 2) != Some(vec![0, 1, 2]) && net.now.since(end) < Duration::from_secs(60) {
        net.run_to(net.now + Duration::from_millis(10));
    }
    net.now.since(end)
}

#[test]
fn a_network_heals_within_two_seconds_of_a_forgers_last_word() {
    const MOST: Duration = Duration::from_secs(2);
    let mut late = Vec::new();
    let counts = || (0..20).map(|seed| (seed, 700)).chain([(20, 10_000), (21, 20_000)]);
    for config in [quick(), Config::default()] {
        for kind in [Kind::Numbers, Kind::Mutations, Kind::Breaks] {
            for (seed, count) in counts() {
                let healing = healing(config, kind, seed, count);
                if healing > MOST {
                    late.push((config.update_interval, kind, seed, healing));
                }
            }
        }
    }

    assert!(late.is_empty(), "{late:#?}");
}

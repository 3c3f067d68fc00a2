//! A node keeps the contract whatever comes.

use harness::Core;

use super::*;

/// What happens to a node.
#[derive(Clone, Debug)]
pub enum Input {
    Break(u8),
    Demand(u8, Option<u8>),
    Interface(usize, bool),
    Message { from: u8, is_unicast: bool, ttl: u8, octets: Vec<u8> },
    Passage(u8, u8, u8),
}

/// 10.0.0.0 to 10.0.0.7, of which the node has two, and Internet hosts.
fn address(number: u8) -> Ipv4Addr {
    if number < 8 { Ipv4Addr::new(10, 0, 0, number) } else { Ipv4Addr::new(192, 0, 2, number) }
}

fn neighbour(number: u8) -> Neighbour {
    Neighbour { interface: usize::from(number % 2), address: address(number) }
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let number = || 0_u8..10;
    let sequence = || prop_oneof![0_u32..6, any::<u32>()];
    let request = (any::<[bool; 3]>(), number(), number(), 0_u8..4, 0_u32..4, sequence());
    let request = request.prop_map(|(flags, from, to, hops, id, sequence)| {
        let [gratuitous, destination_only, is_known] = flags;
        Message::Request(Request {
            join: false,
            repair: false,
            gratuitous,
            destination_only,
            hops,
            id,
            destination: address(to),
            destination_sequence: is_known.then_some(sequence),
            originator: address(from),
            originator_sequence: sequence,
        })
    });
    let reply = (any::<[bool; 2]>(), number(), number(), 0_u8..4, sequence(), any::<u32>());
    let reply = reply.prop_map(|([acknowledge, is_internet], from, to, hops, sequence, life)| {
        Message::Reply(Reply {
            repair: false,
            acknowledge,
            prefix: 0,
            hops,
            destination: address(to),
            sequence,
            originator: address(from),
            lifetime: Duration::from_millis((life >> (life % 32)).into()),
            hello_interval: (life % 3 == 0).then_some(millis(life.into())),
            internet: is_internet.then_some(address(9)),
        })
    });
    let errors = prop::collection::vec((number(), sequence()), 1..5);
    let errors = (any::<bool>(), errors).prop_map(|(no_delete, unreachable)| {
        let unreachable = unreachable.into_iter().map(|(to, number)| (address(to), number));
        Message::Error(Errors { no_delete, unreachable: unreachable.collect() })
    });
    let written = prop_oneof![request, reply, errors, Just(Message::Acknowledgement)];
    let written = written.prop_map(|message| {
        let mut octets = Vec::new();
        message.emit(&mut octets);
        octets
    });
    prop_oneof![9 => written, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

fn input() -> impl Strategy<Value = Input> {
    let number = || 0_u8..10;
    prop_oneof![
        1 => number().prop_map(Input::Break),
        3 => (number(), prop::option::of(number())).prop_map(|(to, from)| Input::Demand(to, from)),
        1 => (0_usize..2, any::<bool>()).prop_map(|(index, is_up)| Input::Interface(index, is_up)),
        9 => (number(), any::<bool>(), 0_u8..5, message()).prop_map(|(from, is_unicast, ttl, octets)| {
            Input::Message { from, is_unicast, ttl, octets }
        }),
        3 => (number(), number(), number()).prop_map(|(from, to, next)| {
            Input::Passage(from, to, next)
        }),
    ]
}

impl Core for Aodv {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Break(other) => self.handle_break(now, neighbour(other)),
            Input::Demand(to, from) => {
                let demand = Demand { destination: address(to), from: from.map(neighbour) };
                self.handle_demand(now, &demand);
            }
            Input::Interface(index, is_up) => {
                let address = address(if index == 0 { 1 } else { 2 });
                let interface = Interface { address, room: 60 };
                self.handle_interface(now, index, is_up.then_some(&interface));
            }
            Input::Message { from, is_unicast, ttl, octets } => {
                let arrival = Arrival { from: neighbour(from), is_unicast, ttl };
                self.handle_message(now, &arrival, &octets);
            }
            Input::Passage(from, to, next) => {
                let passage = Passage {
                    source: address(from),
                    destination: address(to),
                    from: (from != 1).then_some(neighbour(from)),
                    next: neighbour(next),
                };
                self.handle_passage(now, &passage);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        Router::handle_timeout(self, now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (0..2).any(|interface| Router::poll_transmit(self, now, interface, out).is_some())
    }

    fn next_timeout(&self) -> Option<Time> {
        Router::next_timeout(self)
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let Bounds { routes, requests, neighbours, discoveries, internet, .. } =
            self.config().bounds;
        let bounds = [routes, requests, neighbours, discoveries, internet];
        for (size, bound) in self.sizes().into_iter().zip(bounds) {
            prop_assert!(size <= bound, "{:?} beyond {bounds:?}", self.sizes());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_node_keeps_the_contract(
        has_hellos: bool,
        gateway: bool,
        wait_after_reboot: bool,
        steps in harness::steps(input()),
    ) {
        let profile = match has_hellos {
            true => Config::hello(),
            false => Config::link_layer_feedback(),
        };
        let config = Config {
            wait_after_reboot,
            internet: Internet { gateway, ..profile.internet },
            unidirectional: Unidirectional { acknowledge: true, ..profile.unidirectional },
            bounds: Bounds {
                routes: 5,
                precursors: 2,
                requests: 3,
                discoveries: 2,
                neighbours: 3,
                internet: 2,
                messages: 4,
                neighbour_rate: 5,
            },
            ..profile
        };
        let mut core = Aodv::new(config, Rng::stream(1, "node"));
        let interface = Interface { address: address(1), room: 60 };
        core.handle_interface(Time::ZERO, 0, Some(&interface));
        harness::keeps(&mut core, Time::ZERO, steps)?;
    }
}

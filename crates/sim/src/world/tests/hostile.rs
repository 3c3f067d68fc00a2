//! Octets from strangers.

use hbh::{Config, Profile};
use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(harness::cases(200))]

    #[test]
    fn no_packet_makes_a_node_panic_or_keep_it(
        protocol in prop_oneof![Just(1_u8), Just(6), Just(17), Just(58), Just(253), any::<u8>()],
        v6 in any::<bool>(),
        passes_through in any::<bool>(),
        ttl in 0_u8..4,
        payload in prop::collection::vec(any::<u8>(), 0..200),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 0..4),
        profile in prop_oneof![Just(None), Just(Some(Profile::Default)), Just(Some(Profile::Paper))],
    ) {
        let (mut world, nodes) = chain(1, 2, &link(slow()));
        if let Some(profile) = profile {
            for node in &nodes {
                world.enable_hbh(*node, Config::new(profile));
            }
            world.meet();
        }
        for node in &nodes[1..] {
            world.add_app(*node, transfer::Sink::new(transfer::SinkConfig::new(9)));
            world.add_app(*node, stream::Sink::new(9));
            world.add_app(*node, echo::Echo::new(7));
        }
        let target = nodes[if passes_through { 2 } else { 1 }];
        let address = |node| world.addresses(node).find(|it| it.is_ipv6() == v6).unwrap();
        let mut packet = Vec::new();
        let spec = Spec::new(address(nodes[0]), address(target), protocol);
        Spec { ttl, ..spec }.emit(payload.len(), &mut packet);
        packet.extend_from_slice(&payload);
        for (place, bit) in flips {
            let place = place.index(packet.len());
            packet[place] ^= 1 << bit;
        }
        if packet[0] == 0x45 {
            base::ip::rewrite_v4_checksum(&mut packet[..20]);
        }

        world.inject(nodes[0], &packet);
        run_for(&mut world, 600);
        let limit = world.now() + Duration::from_secs(10);
        // Hellos are under way now and then.
        world.run(limit, |world| world.packets_under_way() == 0);

        prop_assert_eq!(world.packets_under_way(), 0);
    }
}

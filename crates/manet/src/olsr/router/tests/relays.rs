//! Relays reach all neighbours of neighbours, and no more of them carry than are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::{Net, main, secs};
use crate::olsr::Config;
use crate::olsr::mpr::{ALWAYS, Candidate, select};

/// Candidates whose reach is given by bits.
fn candidates(given: &[(u8, u16)]) -> BTreeMap<Ipv4Addr, Candidate> {
    let candidate = |&(willingness, bits): &(u8, u16)| {
        let reached = (0..16).filter(|bit| bits >> bit & 1 == 1);
        Candidate { willingness, reaches: reached.map(|it| main(100 + it)).collect() }
    };
    given.iter().enumerate().map(|(at, it)| (main(at), candidate(it))).collect()
}

/// How many of `chosen` reach each node that any of them all reaches.
fn covered(
    candidates: &BTreeMap<Ipv4Addr, Candidate>,
    chosen: &BTreeSet<Ipv4Addr>,
) -> BTreeMap<Ipv4Addr, usize> {
    let all = candidates.values().flat_map(|candidate| &candidate.reaches);
    let reach = |node| chosen.iter().filter(|it| candidates[it].reaches.contains(node)).count();
    all.map(|node| (*node, reach(node))).collect()
}

#[test]
fn the_most_willing_is_chosen_before_who_reaches_more() {
    // 0 reaches all, 1 and 2 half each and are more willing; then 1 is less.
    let both = select(&candidates(&[(3, 0b1111), (4, 0b0011), (4, 0b1100)]), 1);
    let first = select(&candidates(&[(3, 0b1111), (2, 0b0011), (3, 0b1100)]), 1);

    assert_eq!(both, BTreeSet::from([main(1), main(2)]));
    assert_eq!(first, BTreeSet::from([main(0)]));
}

#[test]
fn who_alone_reaches_a_node_is_chosen_however_unwilling() {
    let chosen = select(&candidates(&[(6, 0b0111), (1, 0b1111), (7, 0)]), 1);

    assert_eq!(chosen, BTreeSet::from([main(1), main(2)]), "and who is willing always");
}

#[test]
fn a_coverage_of_two_is_two_relays_for_each_node_that_has_them() {
    let candidates = candidates(&[(3, 0b0111), (3, 0b0111), (3, 0b0111), (3, 0b1000)]);

    let chosen = select(&candidates, 2);

    assert_eq!(chosen, BTreeSet::from([main(0), main(1), main(3)]));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn all_are_covered_and_nobody_is_needless(
        given in prop::collection::vec((1_u8..=7, any::<u16>()), 0..9),
        coverage in 1_usize..4,
    ) {
        let candidates = candidates(&given);

        let chosen = select(&candidates, coverage);

        let all: BTreeSet<_> = candidates.keys().copied().collect();
        let ways = covered(&candidates, &all);
        let enough = |chosen: &BTreeSet<_>| {
            covered(&candidates, chosen).iter().all(|(node, have)| *have >= coverage.min(ways[node]))
        };
        prop_assert!(enough(&chosen));
        for (address, candidate) in &candidates {
            if candidate.willingness == ALWAYS {
                prop_assert!(chosen.contains(address));
            } else if chosen.contains(address) {
                let mut others = chosen.clone();
                others.remove(address);
                prop_assert!(!enough(&others), "{} is needless", address);
            }
        }
    }

    #[test]
    fn the_relays_are_at_most_a_logarithm_more_than_the_fewest(
        given in prop::collection::vec(any::<u16>(), 1..9),
    ) {
        let given: Vec<(u8, u16)> = given.into_iter().map(|bits| (3, bits)).collect();
        let candidates = candidates(&given);

        let chosen = select(&candidates, 1);

        let all: u16 = given.iter().fold(0, |all, (_, bits)| all | bits);
        let reach = |set: u32| {
            let members = given.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            members.fold(0, |reached, (_, (_, bits))| reached | bits)
        };
        let sets = (0_u32..1 << given.len()).filter(|set| reach(*set) == all);
        let fewest = sets.map(u32::count_ones).min().unwrap();
        let most = given.iter().map(|(_, bits)| bits.count_ones()).max().unwrap();
        let bound = f64::from(fewest) * (1.0 + f64::from(most.max(1)).ln());
        prop_assert!(chosen.len() as f64 <= bound, "{} instead of {}", chosen.len(), fewest);
    }
}

proptest! {
    #![proptest_config(harness::cases(16))]

    #[test]
    fn the_relays_of_every_node_reach_all_that_are_two_hops_away(
        count in 3_usize..22,
        further in 0_usize..30,
        seed: u64,
    ) {
        let mut net = Net::new(count, &super::random(count, further, seed), &Config::default());

        net.run_until(secs(20.0));

        for node in 0..count {
            let relays: BTreeSet<Ipv4Addr> = net.olsr(node).relays().collect();
            for (far, _) in net.distances(node).into_iter().filter(|(_, hops)| *hops == 2) {
                let near = net.distances(far);
                let carries = |relay: &usize| near[relay] == 1 && relays.contains(&main(*relay));
                prop_assert!((0..count).any(|it| carries(&it)), "{} to {}: {:?}", node, far, relays);
            }
        }
    }
}

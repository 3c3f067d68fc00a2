//! The tree of shortest ways beside the one that takes no wit (Floyd and Warshall).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::id;
use crate::Neighbour;
use crate::ospf::spf::{Way, tree};
use crate::ospf::wire::{Point, RouterLsa, link};

const FAR: u64 = u64::MAX / 4;

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn ways_cost_what_the_shortest_ones_do(
        count in 2_usize..12,
        links in prop::collection::vec((0_usize..12, 0_usize..12, 1_u16..20, any::<u8>()), 0..40),
    ) {
        // A link counts where both its ends tell of it: some have only one.
        let mut costs = vec![vec![None; count]; count];
        for (a, b, cost, ways) in links {
            let (a, b) = (a % count, b % count);
            if a != b {
                costs[a][b] = Some(cost);
                if ways > 40 {
                    costs[b][a] = Some(cost + u16::from(ways % 3));
                }
            }
        }
        let points = |from: usize| {
            let to = |to: usize| Some(Point {
                id: id(to),
                data: 0,
                kind: link::POINT_TO_POINT,
                metric: costs[from][to]?,
            });
            (0..count).filter_map(to).collect()
        };
        let routers: BTreeMap<Ipv4Addr, RouterLsa> =
            (0..count).map(|at| (id(at), RouterLsa { flags: 0, links: points(at) })).collect();
        let first = (0..count).filter_map(|to| {
            let next = Neighbour { interface: to, address: id(to) };
            Some((id(to), Way { cost: costs[0][to]?.into(), hops: 1, next }))
        });

        let found = tree(id(0), first.collect(), &routers);

        let is_link = |a: usize, b: usize| costs[a][b].is_some() && costs[b][a].is_some();
        let mut shortest = vec![vec![FAR; count]; count];
        for a in 0..count {
            shortest[a][a] = 0;
            for b in 0..count {
                if a != b && is_link(a, b) {
                    shortest[a][b] = u64::from(costs[a][b].unwrap());
                }
            }
        }
        for by in 0..count {
            for a in 0..count {
                for b in 0..count {
                    shortest[a][b] = shortest[a][b].min(shortest[a][by] + shortest[by][b]);
                }
            }
        }
        for (to, shortest_to) in shortest[0].iter().enumerate().skip(1) {
            let way = found.get(&id(to));
            let cost = way.map_or(FAR, |way| way.cost.into());
            prop_assert_eq!(cost, (*shortest_to).min(FAR), "to {}", to);
            // The first hop lies on a shortest way, and is the first of those with the fewest hops.
            if let Some(way) = way {
                let by = way.next.interface;
                let first = u64::from(costs[0][by].unwrap());
                prop_assert_eq!(first + shortest[by][to], *shortest_to);
            }
        }
        prop_assert!(!found.contains_key(&id(0)));
    }
}

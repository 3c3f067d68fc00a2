//! Chooses a node's multipoint relays, the neighbours that relay its broadcasts (RFC 3626, 8.3.1 and 16).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// A neighbour on an interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Candidate {
    /// How willing it is, 1 to 7.
    pub willingness: u8,
    /// Strict two-hop neighbours reachable through this neighbour.
    pub reaches: BTreeSet<Ipv4Addr>,
}

/// The neighbour relays for everyone, useful or not.
pub const ALWAYS: u8 = 7;

/// Selects the MPRs of an interface: together they reach each two-hop neighbour `coverage` times, or as often as all
/// neighbours together. Neighbours with willingness "always" are included.
pub fn select(candidates: &BTreeMap<Ipv4Addr, Candidate>, coverage: usize) -> BTreeSet<Ipv4Addr> {
    // How many more have to reach a two-hop neighbour.
    let mut missing: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
    for reached in candidates.values().flat_map(|candidate| &candidate.reaches) {
        *missing.entry(*reached).or_default() += 1;
    }
    let poorly_covered: BTreeSet<Ipv4Addr> =
        missing.iter().filter(|(_, ways)| **ways <= coverage).map(|(node, _)| *node).collect();
    missing.values_mut().for_each(|ways| *ways = (*ways).min(coverage));
    let needed = missing.clone();

    let mut chosen = BTreeSet::new();
    let mut choose = |address: Ipv4Addr, candidate: &Candidate, missing: &mut BTreeMap<_, _>| {
        chosen.insert(address);
        for reached in &candidate.reaches {
            if let Some(ways) = missing.get_mut(reached) {
                *ways -= 1;
                if *ways == 0 {
                    missing.remove(reached);
                }
            }
        }
    };
    let mut others = Vec::new();
    for (&address, candidate) in candidates {
        let is_sole = !candidate.reaches.is_disjoint(&poorly_covered);
        if candidate.willingness >= ALWAYS || is_sole {
            choose(address, candidate, &mut missing);
        } else {
            others.push((address, candidate));
        }
    }
    while !missing.is_empty() {
        let reach = |candidate: &Candidate| {
            candidate.reaches.iter().filter(|node| missing.contains_key(node)).count()
        };
        let value = |&(address, candidate): &(Ipv4Addr, &Candidate)| {
            let reach = reach(candidate);
            let lowest = std::cmp::Reverse(address);
            (reach > 0, candidate.willingness, reach, candidate.reaches.len(), lowest)
        };
        let best = others.iter().enumerate().max_by_key(|(_, other)| value(other));
        // Each missing node is reached by at least as many candidates as it lacks relays, so some candidate reaches
        // more.
        let Some((at, _)) = best else { break };
        let (address, candidate) = others.swap_remove(at);
        choose(address, candidate, &mut missing);
    }
    prune(candidates, needed, chosen)
}

/// Without those, the least willing first, that the others make needless.
fn prune(
    candidates: &BTreeMap<Ipv4Addr, Candidate>,
    needed: BTreeMap<Ipv4Addr, usize>,
    mut chosen: BTreeSet<Ipv4Addr>,
) -> BTreeSet<Ipv4Addr> {
    // Surplus of chosen relays that reach a two-hop neighbour.
    let mut spare: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
    for reached in chosen.iter().flat_map(|address| &candidates[address].reaches) {
        *spare.entry(*reached).or_default() += 1;
    }
    for (node, needed) in needed {
        spare.entry(node).and_modify(|ways| *ways -= needed);
    }
    let mut order: Vec<_> = chosen.iter().map(|it| (candidates[it].willingness, *it)).collect();
    order.sort_unstable();
    for (willingness, address) in order {
        let reaches = &candidates[&address].reaches;
        if willingness < ALWAYS && reaches.iter().all(|node| spare[node] > 0) {
            reaches.iter().for_each(|node| *spare.get_mut(node).expect("it is reached") -= 1);
            chosen.remove(&address);
        }
    }
    chosen
}

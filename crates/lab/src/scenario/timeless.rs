//! Transfers without end where a packet takes no time: their run would never leave its instant.

use base::quantity::BitRate;
use sim::channel;

use super::plan::{Link, Media};

/// Whether all ways between two nodes take no time: links with neither rate, delay, jitter nor slots join them, and
/// nothing else does.
pub fn joins_without_time((links, radios, nets): Media<'_>, [from, to]: [usize; 2]) -> bool {
    let is_timeless =
        |link: &&Link| [&link.config.there, &link.config.back].into_iter().all(takes_no_time);
    let timeless = || links.iter().filter(is_timeless).map(|link| link.ends.to_vec());
    let others = || {
        let links = links.iter().filter(|link| !is_timeless(link)).map(|link| link.ends.to_vec());
        let radios = radios.iter().map(|it| it.stations.iter().map(|it| it.node).collect());
        links.chain(radios).chain(nets.iter().map(|it| it.stations.clone()))
    };
    reaches(timeless(), [from, to]) && !reaches(others(), [from, to])
}

fn takes_no_time(channel: &channel::Config) -> bool {
    channel.rate == BitRate::Unlimited
        && channel.delay.is_zero()
        && channel.jitter.is_zero()
        && channel.slots.is_zero()
}

/// Whether groups of nodes, each of which is joined, lead from one node to another.
fn reaches(groups: impl Iterator<Item = Vec<usize>>, [from, to]: [usize; 2]) -> bool {
    let mut left: Vec<Vec<usize>> = groups.collect();
    let mut known = std::collections::BTreeSet::from([from]);
    loop {
        let before = known.len();
        left.retain(|group| {
            let is_near = group.iter().any(|node| known.contains(node));
            if is_near {
                known.extend(group.iter().copied());
            }
            !is_near
        });
        if known.contains(&to) || known.len() == before {
            return known.contains(&to);
        }
    }
}

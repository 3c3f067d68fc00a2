//! The places of the matrix: two things vary at a time, around a few bases.
//!
//! ```text
//!   slow      4 hops of 300 kbit/s 50 ms, 100 kB          the chain of the other claims
//!   fast      2 hops of 2 Mbit/s 20 ms, 100 kB
//!   local     1 hop of 20 Mbit/s 2 ms, 1 MB
//!   long      4 hops of 5 Mbit/s 50 ms, 1 MB
//! ```

use super::scenario::{Host, Jitter, LINKS, Outage, Place, Scenario};
use crate::everywhere;

const HOPS: [usize; 4] = [1, 2, 4, 6];
const SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
const LOSSES: [f64; 5] = [0.001, 0.01, 0.05, 0.10, 0.20];
const OUTAGES: [u32; 3] = [1, 10, 60];
const QUEUES: [usize; 2] = [10, 200];

fn slow(host: Host) -> Scenario {
    Scenario::new(4, LINKS[0], host)
}

fn fast(host: Host) -> Scenario {
    Scenario::new(2, LINKS[2], host)
}

fn local(host: Host) -> Scenario {
    Scenario { octets: 1_000_000, ..Scenario::new(1, LINKS[3], host) }
}

fn long(host: Host) -> Scenario {
    Scenario { octets: 1_000_000, ..Scenario::new(4, LINKS[4], host) }
}

/// All places of the matrix, each once; the index of a place is its number.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    all.extend(paths());
    all.extend(sizes());
    all.extend(losses());
    all.extend(flows());
    all.extend(queues());
    all.extend(streams());
    all.extend(jitters());
    all.extend(outages());
    everywhere::distinct(all)
}

/// Hops and links, hosts, a little loss.
fn paths() -> Vec<Scenario> {
    let mut all = Vec::new();
    for hops in HOPS {
        for link in LINKS {
            for loss in [0.0, 0.01, 0.10] {
                all.push(Scenario::new(hops, link, Host::Linux).losing(loss));
            }
            all.push(Scenario::new(hops, link, Host::Current));
        }
        for host in Host::ALL {
            for loss in [0.0, 0.01, 0.05, 0.20] {
                all.push(Scenario { hops, ..slow(host) }.losing(loss));
            }
        }
    }
    all
}

/// Octets to send, over links, hosts and losses.
fn sizes() -> Vec<Scenario> {
    let mut all = Vec::new();
    for octets in SIZES {
        for link in LINKS {
            all.push(Scenario { octets, ..Scenario::new(4, link, Host::Linux) });
            all.push(Scenario { octets, ..Scenario::new(1, link, Host::Current) });
        }
        for host in Host::ALL {
            all.extend([slow(host), fast(host), local(host)].map(|s| Scenario { octets, ..s }));
        }
        for loss in [0.001, 0.01, 0.05, 0.20] {
            all.push(Scenario { octets, ..slow(Host::Linux) }.losing(loss));
            all.push(Scenario { octets, ..fast(Host::Current) }.losing(loss));
        }
    }
    for loss in LOSSES {
        all.extend([local(Host::Linux), long(Host::Linux)].map(|s| s.losing(loss)));
    }
    all.extend(Host::ALL.map(long));
    all
}

/// Losses by where they are, how they come, and for whom.
fn losses() -> Vec<Scenario> {
    let mut all = Vec::new();
    for loss in LOSSES {
        for host in Host::ALL {
            all.extend([slow(host), fast(host)].map(|s| s.losing(loss)));
        }
        for place in [Place::Backward, Place::Forward, Place::Middle] {
            all.push(slow(Host::Linux).losing_at(loss, place, false));
            all.push(slow(Host::Ns3).losing_at(loss, place, false));
            all.push(fast(Host::Current).losing_at(loss, place, false));
        }
        for base in [slow(Host::Ns3), slow(Host::Linux), fast(Host::Current)] {
            all.push(base.losing_at(loss, Place::Everywhere, true));
        }
    }
    all
}

/// Three flows at once.
fn flows() -> Vec<Scenario> {
    let mut all = Vec::new();
    for host in Host::ALL {
        for loss in [0.0, 0.01, 0.10] {
            all.extend([slow(host), fast(host)].map(|s| s.losing(loss)));
        }
        all.push(local(host));
    }
    for hops in HOPS {
        all.push(Scenario { hops, ..slow(Host::Linux) });
    }
    for link in LINKS {
        all.extend([0.0, 0.01].map(|loss| Scenario::new(4, link, Host::Linux).losing(loss)));
    }
    for octets in SIZES {
        all.push(Scenario { octets, ..slow(Host::Linux) });
    }
    all.into_iter().map(|scenario| Scenario { flows: 3, ..scenario }).collect()
}

/// Short and long queues.
fn queues() -> Vec<Scenario> {
    let mut all = Vec::new();
    for queue in QUEUES {
        for link in LINKS {
            all.push(Scenario { queue, ..Scenario::new(4, link, Host::Linux) });
        }
        for host in Host::ALL {
            all.extend([slow(host), local(host)].map(|s| Scenario { queue, ..s }));
        }
        for loss in [0.01, 0.10] {
            all.push(Scenario { queue, ..slow(Host::Linux) }.losing(loss));
            all.push(Scenario { queue, ..fast(Host::Current) }.losing(loss));
        }
        all.push(Scenario { queue, flows: 3, ..slow(Host::Linux) });
        all.push(Scenario { queue, octets: 1_000_000, ..slow(Host::Linux) });
    }
    all
}

/// TCP beside a stream of datagrams.
fn streams() -> Vec<Scenario> {
    let mut all = Vec::new();
    all.extend(LINKS.map(|link| Scenario::new(4, link, Host::Linux)));
    all.extend(Host::ALL.map(slow));
    all.extend(HOPS.map(|hops| Scenario { hops, ..slow(Host::Current) }));
    for loss in [0.01, 0.05, 0.20] {
        all.extend([slow(Host::Linux), fast(Host::Current)].map(|s| s.losing(loss)));
    }
    all.into_iter().map(|scenario| Scenario { has_stream: true, ..scenario }).collect()
}

/// Delays that vary, in order and not.
fn jitters() -> Vec<Scenario> {
    let mut all = Vec::new();
    for jitter in [Jitter::InOrder, Jitter::Reordering] {
        let varied = |scenario: Scenario| Scenario { jitter, ..scenario };
        all.extend(LINKS.map(|link| varied(Scenario::new(4, link, Host::Linux))));
        for host in Host::ALL {
            all.extend([slow(host), fast(host)].map(varied));
        }
        for loss in [0.01, 0.10] {
            let bases = [slow(Host::Linux), fast(Host::Current)];
            all.extend(bases.map(|base| varied(base.losing(loss))));
        }
    }
    all
}

/// The middle loses everything for a while.
fn outages() -> Vec<Scenario> {
    let mut all = Vec::new();
    for seconds in OUTAGES {
        let both = Some(Outage { seconds, is_one_way: false });
        for hops in HOPS {
            let hosts = Host::ALL.map(|host| Scenario { hops, ..slow(host) });
            all.extend(hosts.map(|s| Scenario { outage: both, ..s }));
        }
        for link in LINKS {
            all.push(Scenario { outage: both, ..Scenario::new(4, link, Host::Linux) });
        }
        for base in [slow(Host::Linux), fast(Host::Current)] {
            let one_way = Some(Outage { seconds, is_one_way: true });
            all.push(Scenario { outage: one_way, ..base });
            all.push(Scenario { outage: both, flows: 3, ..base });
            all.push(Scenario { outage: both, ..base.losing(0.05) });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_is_varied_and_no_place_comes_twice() {
        let all = scenarios();

        let names: std::collections::BTreeSet<String> = all.iter().map(Scenario::name).collect();
        assert_eq!(names.len(), all.len(), "two places have one name");
        assert!((200..500).contains(&all.len()), "{}", all.len());
        for hops in HOPS {
            assert!(all.iter().any(|s| s.hops == hops));
        }
        for seconds in OUTAGES {
            assert!(all.iter().any(|s| s.outage.is_some_and(|o| o.seconds == seconds)));
        }
        for mean in LOSSES {
            assert!(all.iter().any(|s| s.losses.is_some_and(|l| l.in_bursts && l.mean == mean)));
        }
    }

    #[test]
    fn every_burst_is_possible() {
        for scenario in scenarios() {
            assert!(scenario.losses_of(scenario.middle()).is_ok(), "{scenario}");
        }
    }
}

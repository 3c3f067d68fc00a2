//! Assumptions about the net, and alternatives to them.

use std::time::Duration;

use sim::cnr::{AccessMethod, Coding, Config, LinkType};

/// A change to one assumption about the net.
pub struct Assumption {
    pub title: &'static str,
    pub set: fn(&mut Config),
}

const fn otherwise(title: &'static str, set: fn(&mut Config)) -> Assumption {
    Assumption { title, set }
}

/// What docs/protocols/channels.md is unsure of.
pub static ASSUMED: [Assumption; 17] = [
    otherwise("as everywhere else", |_| {}),
    otherwise("access r-nad", |it| it.access = AccessMethod::Random),
    otherwise("access p-nad", |it| it.access = AccessMethod::Prioritised),
    otherwise("access h-nad", |it| it.access = AccessMethod::Hybrid),
    otherwise("access dap-nad", |it| it.access = AccessMethod::DeterministicAdaptive),
    otherwise("key-up 60 ms", |it| it.timing.key_up = Duration::from_millis(60)),
    otherwise("key-up 610 ms", |it| it.timing.key_up = Duration::from_millis(610)),
    otherwise("busy-detect 30 ms", |it| it.timing.busy_detect = Some(Duration::from_millis(30))),
    otherwise("coding none", |it| it.coding = Coding::Plain),
    otherwise("concatenate 0", |it| it.concatenate = 0),
    otherwise("persistence 0.5", |it| it.scheduling.persistence = 0.5),
    otherwise("loss 0 %", |it| it.loss = 0.0),
    otherwise("loss 10 %", |it| it.loss = 0.1),
    otherwise("no topology updates", |it| it.topology_spacing = Duration::ZERO),
    otherwise("acknowledgement coupled", |it| it.link_type = LinkType::Coupled),
    otherwise("acknowledgement decoupled", |it| it.link_type = LinkType::Decoupled),
    otherwise("rate 4800 bit/s", |it| {
        it.rate = base::quantity::BitRate::from_bits_per_s(4_800).unwrap_or(it.rate);
    }),
];

//! Names the nodes, media and flows in the picture of a scenario.

use std::time::Duration;

use base::quantity::{BitRate, Span};
use sim::channel;

use super::network::Built;
use super::plan::Flow;
use crate::animation::{self, Cast};

impl Built<'_> {
    /// The nodes, media and flows in the picture.
    pub(crate) fn cast(&self) -> Cast {
        let plan = self.plan();
        let names = plan.nodes.iter().map(|node| node.name.clone());
        let wires = plan.links.iter().map(|link| {
            let channel = &link.config.there;
            animation::Wire {
                ends: link.ends,
                label: label(channel),
                down: channel.outages.spans().to_vec(),
            }
        });
        Cast {
            nodes: self.nodes.iter().copied().zip(names).collect(),
            wires: wires.collect(),
            flows: self
                .flows()
                .map(|(kind, flow)| animation::Flow {
                    name: plan.name_of(kind, flow),
                    from: flow.from,
                    to: flow.to,
                })
                .collect(),
        }
    }

    /// Octets that the application at the end of each flow has received so far.
    pub(crate) fn received_by_flows(&self) -> Vec<u64> {
        let sinks = self.transfers.iter().chain(&self.streams).map(|[_, sink]| *sink);
        sinks.map(|sink| self.received(sink)).collect()
    }

    fn flows(&self) -> impl Iterator<Item = (&'static str, &Flow)> {
        let transfers = self.plan().transfers.iter().map(|transfer| ("tcp", &transfer.flow));
        transfers.chain(self.plan().streams.iter().map(|stream| ("udp", &stream.flow)))
    }
}

/// Describes a channel for people: `300 kbit/s, 50 ms`.
fn label(channel: &channel::Config) -> String {
    let rate = match channel.rate {
        BitRate::Unlimited => "unlimited".to_owned(),
        rate @ BitRate::PerSecond(_) => spaced(&format!("{rate}/s")),
    };
    match channel.delay {
        Duration::ZERO => rate,
        delay => format!("{rate}, {}", spaced(&Span(delay).to_string())),
    }
}

/// Number and unit apart, the unit with the capital that it has elsewhere.
fn spaced(quantity: &str) -> String {
    let unit = quantity.find(char::is_alphabetic).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(unit);
    format!("{number} {}", unit.replace("mbit", "Mbit").replace("gbit", "Gbit"))
}

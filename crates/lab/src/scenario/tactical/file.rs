//! Sections of a scenario file: read and written.

use std::fmt::{self, Formatter};

use base::parameter::{Value, Written};
use base::time::Time;
use settings::{Complaint, Section};
use sim::PassiveOpens;

use super::super::names::Reader;
use super::super::plan::{Media, Plan};
use super::{BGP, Bgp, MESSAGES, Messages, Over};

/// Reads how many passive opens hosts have.
pub(crate) fn passive_opens(root: &Section<'_>) -> Result<PassiveOpens, Complaint> {
    let Some(entry) = root.get("passive-opens")? else { return Ok(PassiveOpens::default()) };
    match entry.written() {
        Written::Text(_) => entry.word(&[("on-demand", PassiveOpens::OnDemand)]),
        _ => Ok(PassiveOpens::Fixed(entry.count(1..=4_096)?)),
    }
}

impl Reader<'_> {
    pub(crate) fn bgp(
        &self,
        root: &Section<'_>,
        usual: Option<&Section<'_>>,
        media: Media<'_>,
    ) -> Result<Option<Bgp>, Complaint> {
        let Some(section) = root.section("bgp")? else { return Ok(None) };
        let nodes = self.hosts(&section)?;
        let mut bgp = Bgp { tcp: usual_tcp(media, &nodes), nodes, ..Bgp::default() };
        section.apply(&BGP, &mut bgp)?;
        let options = section.section("options")?;
        for options in [usual, options.as_ref()].into_iter().flatten() {
            options.apply(&tcp::PARAMETERS, &mut bgp.tcp)?;
        }
        (bgp.start, bgp.stop) = self.times(&section)?;
        Ok(Some(bgp))
    }

    pub(crate) fn messages(
        &self,
        root: &Section<'_>,
        usual: Option<&Section<'_>>,
        media: Media<'_>,
    ) -> Result<Option<Messages>, Complaint> {
        let Some(section) = root.section("messages")? else { return Ok(None) };
        let mut messages = Messages { nodes: self.hosts(&section)?, ..Messages::default() };
        section.apply(&MESSAGES, &mut messages)?;
        (messages.start, messages.stop) = self.times(&section)?;
        match messages.over {
            Over::Sar => {
                if let Some(sar) = section.section("sar")? {
                    sar.apply(&sar::PARAMETERS, &mut messages.sar)?;
                }
            }
            Over::Tcp => {
                messages.tcp = usual_tcp(media, &messages.nodes);
                let options = section.section("options")?;
                for options in [usual, options.as_ref()].into_iter().flatten() {
                    options.apply(&tcp::PARAMETERS, &mut messages.tcp)?;
                }
            }
            Over::Udp => {}
        }
        Ok(Some(messages))
    }

    /// The nodes named by a section, or all nodes with addresses.
    fn hosts(&self, section: &Section<'_>) -> Result<Vec<usize>, Complaint> {
        let nodes = match section.get("nodes")? {
            Some(entry) => {
                let list = entry.list()?;
                let nodes = list.iter().map(|it| self.linked_node(it));
                let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
                let mut sorted = nodes.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if sorted.len() < nodes.len() {
                    return Err(entry.complain("a node is there twice"));
                }
                for (node, place) in nodes.iter().zip(&list) {
                    self.expect_joined([nodes[0], *node], place)?;
                }
                nodes
            }
            None => self.linked(),
        };
        if nodes.len() < 2 {
            return Err(section.complain("at least two nodes with addresses are needed"));
        }
        Ok(nodes)
    }
}

/// The default TCP of speakers: its MTU is the shortest of their media.
fn usual_tcp(media: Media<'_>, nodes: &[usize]) -> tcp::Config {
    let each = nodes.iter().map(|node| Plan::usual_tcp(media, [*node, *node]));
    each.min_by_key(|tcp| tcp.mtu).unwrap_or_default()
}

/// Writes the parameters that differ from their defaults.
pub(crate) fn write(
    f: &mut Formatter<'_>,
    plan: &Plan,
    list: impl Fn(&[usize]) -> String,
) -> fmt::Result {
    let times = |f: &mut Formatter<'_>, start: Time, stop: Option<Time>| {
        if start != Time::ZERO {
            writeln!(f, "start = {}", Value::from(start.since(Time::ZERO)))?;
        }
        match stop {
            Some(stop) => writeln!(f, "stop = {}", Value::from(stop.since(Time::ZERO))),
            None => Ok(()),
        }
    };
    if let Some(bgp) = &plan.bgp {
        writeln!(f, "\n[bgp]\nnodes = {}", list(&bgp.nodes))?;
        times(f, bgp.start, bgp.stop)?;
        for (name, value) in BGP.differences(&Bgp::default(), bgp) {
            writeln!(f, "{name} = {value}")?;
        }
        let usual = usual_tcp((&plan.links, &plan.radios, &plan.nets), &bgp.nodes);
        for (name, value) in tcp::PARAMETERS.differences(&usual, &bgp.tcp) {
            writeln!(f, "options.{name} = {value}")?;
        }
    }
    if let Some(messages) = &plan.messages {
        writeln!(f, "\n[messages]\nnodes = {}", list(&messages.nodes))?;
        times(f, messages.start, messages.stop)?;
        for (name, value) in MESSAGES.differences(&Messages::default(), messages) {
            writeln!(f, "{name} = {value}")?;
        }
        match messages.over {
            Over::Sar => {
                for (name, value) in
                    sar::PARAMETERS.differences(&sar::Config::default(), &messages.sar)
                {
                    writeln!(f, "sar.{name} = {value}")?;
                }
            }
            Over::Tcp => {
                let usual = usual_tcp((&plan.links, &plan.radios, &plan.nets), &messages.nodes);
                for (name, value) in tcp::PARAMETERS.differences(&usual, &messages.tcp) {
                    writeln!(f, "options.{name} = {value}")?;
                }
            }
            Over::Udp => {}
        }
    }
    Ok(())
}

/// Writes how many passive opens hosts have.
pub(crate) fn write_passive_opens(f: &mut Formatter<'_>, opens: PassiveOpens) -> fmt::Result {
    match opens {
        PassiveOpens::Fixed(count) => writeln!(f, "passive-opens = {count}"),
        PassiveOpens::OnDemand => Ok(()),
    }
}

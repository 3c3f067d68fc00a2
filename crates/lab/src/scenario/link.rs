//! The links of a scenario.

use std::ops::Range;

use base::parameter::Value;
use base::quantity::Span;
use base::time::Time;
use settings::{Complaint, Entry, Section};
use sim::channel::{self, Outages, PARAMETERS};
use sim::{INTERFACE, InterfaceConfig, LinkConfig};

/// A direction of a link, and the interface that sends into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    channel: channel::Config,
    interface: InterfaceConfig,
}

impl Direction {
    /// Changes what a table says.
    pub fn read(&mut self, section: &Section<'_>) -> Result<(), Complaint> {
        section.apply(&PARAMETERS, &mut self.channel)?;
        section.apply(&INTERFACE, &mut self.interface)?;
        if let Some(down) = section.get("down")? {
            self.channel.outages = outages(&down)?;
        }
        Ok(())
    }

    /// Both directions of a link.
    pub fn of(link: &LinkConfig) -> [Self; 2] {
        [(&link.there, link.near), (&link.back, link.far)]
            .map(|(channel, interface)| Self { channel: channel.clone(), interface })
    }

    /// The parameters to write because they differ from the defaults.
    pub fn differences(&self) -> Vec<(&'static str, String)> {
        let usual = Self::default();
        let interface = INTERFACE.differences(&usual.interface, &self.interface);
        let all =
            PARAMETERS.differences(&usual.channel, &self.channel).into_iter().chain(interface);
        let mut all: Vec<_> = all.map(|(name, value)| (name, value.to_string())).collect();
        if !self.channel.outages.spans().is_empty() {
            all.push(("down", spans(&self.channel.outages)));
        }
        all
    }
}

/// The default cost of a link for shortest paths.
pub const COST: u32 = 1;

/// Reads a link: first the parameters of both directions, then the parameters of one direction.
pub fn read(section: &Section<'_>, usual: &Direction) -> Result<LinkConfig, Complaint> {
    let mut both = usual.clone();
    both.read(section)?;
    let direction = |key: &str| {
        let mut direction = both.clone();
        let own = section.section(key)?;
        if let Some(section) = &own {
            direction.read(section)?;
        }
        if let Err(why) = direction.channel.check() {
            let blamed = own.iter().chain([section]).find_map(|it| it.get("jitter").transpose());
            let blamed = blamed.transpose()?;
            return Err(blamed.map_or_else(|| section.complain(why), |it| it.complain(why)));
        }
        Ok((direction.channel, direction.interface))
    };
    let ((there, near), (back, far)) = (direction("there")?, direction("back")?);
    let cost = match section.get("cost")? {
        Some(cost) => cost.count(0..=u32::MAX.into())?,
        None => COST,
    };
    Ok(LinkConfig { there, back, near, far, cost })
}

/// Reads the spans of time in which something does not work.
pub fn outages(down: &Entry<'_>) -> Result<Outages, Complaint> {
    let at = |entry: &Entry<'_>| entry.quantity().map(|Span(span)| Time::ZERO + span);
    let span = |entry: &Entry<'_>| {
        let [from, to] = entry.pair()?;
        Ok(Range { start: at(&from)?, end: at(&to)? })
    };
    let spans = down.list()?.iter().map(span).collect::<Result<Vec<_>, Complaint>>()?;
    Outages::new(spans).map_err(|why| down.complain(why))
}

/// Writes them.
pub fn spans(outages: &Outages) -> String {
    let quoted = |time: Time| Value::from(time.since(Time::ZERO));
    let span = |it: &Range<Time>| format!("[{}, {}]", quoted(it.start), quoted(it.end));
    let spans: Vec<String> = outages.spans().iter().map(span).collect();
    format!("[{}]", spans.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_unless_given_is_allowed() {
        for parameter in PARAMETERS.parameters {
            let default = (parameter.get)(&channel::Config::default());

            assert!(default == Value::Absent || parameter.kind.allows(&default), "{default}");
        }
    }
}

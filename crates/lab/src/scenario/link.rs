//! The links of a scenario.

use std::ops::Range;
use std::time::Duration;

use base::parameter::{Kind, Parameter, Table, Value, named, names, word};
use base::quantity::Span;
use base::time::Time;
use settings::{Complaint, Entry, Section};
use sim::channel::{self, Loss, Outages};
use sim::{InterfaceConfig, LinkConfig, QueueDiscipline};

/// A direction of a link, and the interface that sends into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    channel: channel::Config,
    interface: InterfaceConfig,
}

/// Parameters of a link, of one direction, or of all links.
pub static PARAMETERS: Table<Direction> = Table {
    name: "link",
    parameters: &[
        Parameter::new(
            "rate",
            Kind::Rate { may_be_unlimited: true },
            "Bits a second.",
            |it| it.channel.rate.into(),
            |it, to| it.channel.rate = to.rate(),
        ),
        Parameter::new(
            "delay",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "How long a packet travels.",
            |it| it.channel.delay.into(),
            |it, to| it.channel.delay = to.period(),
        ),
        Parameter::new(
            "jitter",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "The delay varies by this much either way, at most by itself; its mean stays.",
            |it| it.channel.jitter.into(),
            |it, to| it.channel.jitter = to.period(),
        ),
        Parameter::new(
            "reorder",
            Kind::Flag,
            "Whether jitter may let packets overtake.",
            |it| it.channel.reorder.into(),
            |it, to| it.channel.reorder = to.flag(),
        ),
        Parameter::new(
            "loss",
            Kind::Text {
                allowed: "`none`, `5%`, `gilbert-elliott(mean=5%,burst=4)`, \
                          `gilbert-elliott(p=1%,r=25%,h=0,k=1)`, `fades(mean=5%,length=20ms)`, \
                          `trace(00010)`",
                check: |text| match text.parse::<Loss>() {
                    Ok(_) => Ok(()),
                    Err(why) => Err(why.to_string()),
                },
                examples: &["none", "5%"],
            },
            "Which packets do not arrive.",
            |it| Value::Text(it.channel.loss.to_string()),
            |it, to| it.channel.loss = to.text().parse().unwrap_or_default(),
        ),
        Parameter::new(
            "repeat-at-once",
            Kind::Flag,
            "Whether what would be lost is sent again at once, as often as it takes: a link that \
             never loses but is slower.",
            |it| it.channel.repeat_at_once.into(),
            |it, to| it.channel.repeat_at_once = to.flag(),
        ),
        Parameter::new(
            "framing",
            Kind::Count { least: 0, most: 65_535, unit: "octets" },
            "What is added to each packet on the link.",
            |it| it.channel.framing.into(),
            |it, to| it.channel.framing = to.count(),
        ),
        Parameter::new(
            "frame",
            Kind::Count { least: 1, most: 65_535, unit: "octets" },
            "What goes into one frame, where packets are cut into several and each has the framing.",
            |it| it.channel.frame.into(),
            |it, to| it.channel.frame = Some(to.count()),
        ),
        Parameter::new(
            "slots",
            Kind::Period { least: Duration::ZERO, most: DAY },
            "From one slot of the link to the next: a packet that finds it idle waits for a slot.",
            |it| it.channel.slots.into(),
            |it, to| it.channel.slots = to.period(),
        ),
    ],
    rules: &[],
};

/// Parameters of the interfaces of a link or of a radio.
pub static INTERFACE: Table<InterfaceConfig> = Table {
    name: "interface",
    parameters: &[
        Parameter::new(
            "queue",
            Kind::Count { least: 0, most: 1_000_000, unit: "packets" },
            "Packets that may wait before the link or radio.",
            |it| it.queue_packets.into(),
            |it, to| it.queue_packets = to.count(),
        ),
        Parameter::new(
            "queue-octets",
            Kind::Count { least: 0, most: 1 << 40, unit: "octets" },
            "Octets that may wait before the link or radio, where that is limited too.",
            |it| it.queue_octets.into(),
            |it, to| it.queue_octets = Some(to.count()),
        ),
        Parameter::new(
            "mtu",
            Kind::Count { least: 576, most: 65_535, unit: "octets" },
            "The longest IP packet.",
            |it| it.mtu.into(),
            |it, to| it.mtu = to.count(),
        ),
        Parameter::new(
            "hop-backlog",
            Kind::Count { least: 0, most: 1_000_000, unit: "packets" },
            "HBH packets that are handed to the queue ahead of time.",
            |it| it.hop_backlog.into(),
            |it, to| it.hop_backlog = to.count(),
        ),
        Parameter::new(
            "queue-discipline",
            Kind::Word(&names(&DISCIPLINES)),
            "Which packet leaves first: the one that came first, messages of routing protocols, or \
             behind these one flow after the other. Radios below a routing protocol have \
             `routing-first` unless they say otherwise.",
            |it| word(&DISCIPLINES, &it.queue_discipline),
            |it, to| it.queue_discipline = named(&DISCIPLINES, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "mark-at",
            Kind::Count { least: 1, most: 1_000_000, unit: "packets" },
            "How many waiting packets have one that comes and speaks ECN marked, as RFC 3168 lets routers; none is \
             marked unless given.",
            |it| it.mark_at.into(),
            |it, to| it.mark_at = Some(to.count()),
        ),
        Parameter::new(
            "thin-acks",
            Kind::Flag,
            "Whether a TCP acknowledgement takes the place of an older one of its connection that waits.",
            |it| it.thins_acks.into(),
            |it, to| it.thins_acks = to.flag(),
        ),
    ],
    rules: &[],
};

/// What files call the disciplines. Of flows in turns, each sends a packet of Ethernet's length or more
/// short ones.
const DISCIPLINES: [(&str, QueueDiscipline); 3] = [
    ("drop-tail", QueueDiscipline::DropTail),
    ("routing-first", QueueDiscipline::RoutingFirst),
    ("fair", QueueDiscipline::Fair { quantum: 1_500 }),
];

const DAY: Duration = Duration::from_secs(86_400);

impl Direction {
    /// Changes what a table says.
    pub(super) fn read(&mut self, section: &Section<'_>) -> Result<(), Complaint> {
        section.apply(&PARAMETERS, self)?;
        section.apply(&INTERFACE, &mut self.interface)?;
        if let Some(down) = section.get("down")? {
            self.channel.outages = outages(&down)?;
        }
        Ok(())
    }

    /// Both directions of a link.
    pub(super) fn of(link: &LinkConfig) -> [Self; 2] {
        [(&link.there, link.near), (&link.back, link.far)]
            .map(|(channel, interface)| Self { channel: channel.clone(), interface })
    }

    /// The parameters to write because they differ from the defaults.
    pub(super) fn differences(&self) -> Vec<(&'static str, String)> {
        let usual = Self::default();
        let interface = INTERFACE.differences(&usual.interface, &self.interface);
        let all = PARAMETERS.differences(&usual, self).into_iter().chain(interface);
        let mut all: Vec<_> = all.map(|(name, value)| (name, value.to_string())).collect();
        if !self.channel.outages.spans().is_empty() {
            all.push(("down", spans(&self.channel.outages)));
        }
        all
    }
}

/// The default cost of a link for shortest paths.
pub(super) const COST: u32 = 1;

/// Reads a link: first the parameters of both directions, then the parameters of one direction.
pub(super) fn read(section: &Section<'_>, usual: &Direction) -> Result<LinkConfig, Complaint> {
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
pub(super) fn outages(down: &Entry<'_>) -> Result<Outages, Complaint> {
    let at = |entry: &Entry<'_>| entry.quantity().map(|Span(span)| Time::ZERO + span);
    let span = |entry: &Entry<'_>| {
        let [from, to] = entry.pair()?;
        Ok(Range { start: at(&from)?, end: at(&to)? })
    };
    let spans = down.list()?.iter().map(span).collect::<Result<Vec<_>, Complaint>>()?;
    Outages::new(spans).map_err(|why| down.complain(why))
}

/// Writes them.
pub(super) fn spans(outages: &Outages) -> String {
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
            let default = (parameter.get)(&Direction::default());

            assert!(default == Value::Absent || parameter.kind.allows(&default), "{default}");
        }
    }
}

//! Resolves the names of nodes in a scenario file, for the references in its other parts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::name;
use base::parameter::Value;
use base::quantity::Span;
use base::time::Time;
use settings::{Complaint, Entry, Section};

/// A file while it is read.
pub(crate) struct Reader<'d> {
    /// The nodes, in the order of the file.
    names: BTreeMap<&'d str, usize>,
    /// The nodes that have a link or a radio, or are on a net or HF, and so have addresses.
    linked: BTreeSet<usize>,
    /// A node of the same part of the network for each node, itself for one of each part.
    parts: Vec<usize>,
    /// When the run ends at the latest.
    duration: Duration,
}

impl<'d> Reader<'d> {
    /// A file of whose nodes none has a link yet.
    pub(crate) fn new(root: &Section<'d>, duration: Duration) -> Result<Self, Complaint> {
        let names = names(root)?;
        let parts = (0..names.len()).collect();
        Ok(Self { names, linked: BTreeSet::new(), parts, duration })
    }

    /// How many nodes the file has; they are numbered in its order.
    pub(crate) fn node_count(&self) -> usize {
        self.names.len()
    }

    /// The names of all nodes, in the order of the file.
    pub(crate) fn names(&self) -> Vec<&'d str> {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(_, index)| **index);
        names.into_iter().map(|(name, _)| *name).collect()
    }

    /// The nodes that have a link or a radio, or are on a net or HF, ascending.
    pub(crate) fn linked(&self) -> Vec<usize> {
        self.linked.iter().copied().collect()
    }

    /// Records the nodes of a medium.
    pub(crate) fn link(&mut self, nodes: &[usize]) {
        self.linked.extend(nodes);
    }

    /// Records that a medium joins these nodes.
    pub(crate) fn join(&mut self, nodes: impl IntoIterator<Item = usize>) {
        let mut first = None;
        for node in nodes {
            self.linked.insert(node);
            let first = *first.get_or_insert(node);
            let [mine, other] = [first, node].map(|it| self.part(it));
            self.parts[other] = mine;
        }
    }

    /// Complains about `place` if no chain of media leads from one of these nodes to the other.
    pub(crate) fn expect_joined(
        &self,
        [a, b]: [usize; 2],
        place: &Entry<'_>,
    ) -> Result<(), Complaint> {
        if self.part(a) == self.part(b) {
            return Ok(());
        }
        let name = |node| self.names.iter().find(|(_, index)| **index == node).map(|it| *it.0);
        let [a, b] = [a, b].map(|node| name(node).unwrap_or_default());
        Err(place.complain(format!("no links, radios or nets lead from \"{a}\" to \"{b}\"")))
    }

    fn part(&self, mut node: usize) -> usize {
        while self.parts[node] != node {
            node = self.parts[node];
        }
        node
    }

    /// A time of the file that has to lie before the end of the run.
    pub(crate) fn time_within(&self, entry: &Entry<'_>) -> Result<Time, Complaint> {
        let Span(span) = entry.quantity()?;
        if span >= self.duration {
            let end = Value::from(self.duration);
            return Err(entry.complain(format!("the run is over by then: duration is {end}")));
        }
        Ok(Time::ZERO + span)
    }

    /// When something begins, and when it stops.
    pub(crate) fn times(&self, section: &Section<'_>) -> Result<(Time, Option<Time>), Complaint> {
        let start = section.get("start")?.map(|it| self.time_within(&it)).transpose()?;
        let start = start.unwrap_or_default();
        let Some(entry) = section.get("stop")? else { return Ok((start, None)) };
        let Span(stop) = entry.quantity()?;
        if Time::ZERO + stop <= start {
            return Err(entry.complain("it stops before it starts"));
        }
        Ok((start, Some(Time::ZERO + stop)))
    }

    /// The node that an entry names.
    pub(crate) fn node(&self, entry: &Entry<'_>) -> Result<usize, Complaint> {
        self.named(entry.text()?, |what| entry.complain(what))
    }

    /// Finds a node by its name, or complains about the name.
    pub(crate) fn named(
        &self,
        name: &str,
        complain: impl Fn(String) -> Complaint,
    ) -> Result<usize, Complaint> {
        self.names.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.names.keys().copied().collect();
            complain(format!("there is no node \"{name}\"; the nodes are {}", abridged(&known)))
        })
    }

    /// Finds the node named by an entry; the node must have a link.
    pub(crate) fn linked_node(&self, entry: &Entry<'_>) -> Result<usize, Complaint> {
        let node = self.node(entry)?;
        self.expect_link(node, entry.text()?, entry)?;
        Ok(node)
    }

    /// Complains about `place` if the node has no link.
    pub(crate) fn expect_link(
        &self,
        node: usize,
        name: &str,
        place: &Entry<'_>,
    ) -> Result<(), Complaint> {
        if self.linked.contains(&node) {
            return Ok(());
        }
        Err(place.complain(format!("no link, radio or net leads to \"{name}\"")))
    }
}

/// What a table calls its flow, radio or net in reports.
pub fn name(section: &Section<'_>) -> Result<Option<String>, Complaint> {
    let Some(entry) = section.get("name")? else { return Ok(None) };
    let name = entry.text()?;
    let is_shown = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if !is_shown || name.chars().count() > LONGEST_NAME {
        let what =
            format!("a name has 1 to {LONGEST_NAME} characters, none of them a control character");
        return Err(entry.complain(what));
    }
    Ok(Some(name.to_owned()))
}

/// Characters of a name in reports.
pub const LONGEST_NAME: usize = 64;

/// The nodes by name, in the order of the file.
fn names<'d>(root: &Section<'d>) -> Result<BTreeMap<&'d str, usize>, Complaint> {
    let nodes = root.needed("nodes")?;
    let mut names = BTreeMap::new();
    for (index, entry) in nodes.list()?.iter().enumerate() {
        let name = entry.text()?;
        // Written scenarios have spaces in names, and random streams are drawn by names.
        if name.trim() != name || !name::is_allowed(&name.replace(' ', "-")) {
            let allowed = name::ALLOWED;
            return Err(
                entry.complain(format!("{name:?} is not allowed: {allowed}, spaces within"))
            );
        }
        if names.insert(name, index).is_some() {
            return Err(entry.complain(format!("node \"{name}\" is there twice")));
        }
    }
    if names.is_empty() {
        return Err(nodes.complain("at least one node is needed"));
    }
    Ok(names)
}

/// A list of names that fits in a sentence.
fn abridged(names: &[&str]) -> String {
    const MOST: usize = 10;
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}

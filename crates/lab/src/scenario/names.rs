//! The nodes that a scenario file names, to which its other parts refer.

use std::collections::{BTreeMap, BTreeSet};

use settings::{Complaint, Entry, Section};

/// A file while it is read.
pub(super) struct Reader<'d> {
    /// The nodes, in the order of the file.
    pub(super) names: BTreeMap<&'d str, usize>,
    /// The nodes that have a link or a radio, or are on a net or HF, and so have addresses.
    pub(super) linked: BTreeSet<usize>,
}

impl<'d> Reader<'d> {
    /// A file of whose nodes none has a link yet.
    pub(super) fn new(root: &Section<'d>) -> Result<Self, Complaint> {
        Ok(Self { names: names(root)?, linked: BTreeSet::new() })
    }

    /// The node that an entry names.
    pub(super) fn node(&self, entry: &Entry<'_>) -> Result<usize, Complaint> {
        self.named(entry.text()?, |what| entry.complain(what))
    }

    /// The node of this name, or a complaint about it.
    pub(super) fn named(
        &self,
        name: &str,
        complain: impl Fn(String) -> Complaint,
    ) -> Result<usize, Complaint> {
        self.names.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.names.keys().copied().collect();
            complain(format!("there is no node \"{name}\"; the nodes are {}", abridged(&known)))
        })
    }

    /// The node that an entry names, which has a link.
    pub(super) fn linked_node(&self, entry: &Entry<'_>) -> Result<usize, Complaint> {
        let node = self.node(entry)?;
        self.expect_link(node, entry.text()?, entry)?;
        Ok(node)
    }

    /// Complains about `place` if the node has no link.
    pub(super) fn expect_link(
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

/// The nodes by name, in the order of the file.
fn names<'d>(root: &Section<'d>) -> Result<BTreeMap<&'d str, usize>, Complaint> {
    let nodes = root.needed("nodes")?;
    let mut names = BTreeMap::new();
    for (index, entry) in nodes.list()?.iter().enumerate() {
        let name = entry.text()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == ' ';
        if name.trim() != name || name.is_empty() || name.len() > 32 || !name.chars().all(is_plain)
        {
            return Err(entry.complain(format!(
                "\"{name}\" is not a node's name: up to 32 letters, digits, hyphens, underscores \
                 and spaces within"
            )));
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

//! Identifiers for the parts of a world.

use serde::Serialize;

/// A node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(pub(crate) u32);

/// An interface of a node, seen from the medium that it is attached to.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub(crate) u32);

/// A point-to-point link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub(crate) u32);

/// A medium, by its place in the order in which they were added.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MediumId(pub(crate) u32);

/// An application.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AppId(pub(crate) u32);

/// A tunnel between two nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TunnelId(pub(crate) u32);

/// A frequency that HF stations share.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HfId(pub(crate) u32);

/// A combat net radio channel that stations share.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CnrId(pub(crate) u32);

/// A radio channel that stations share.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RadioId(pub(crate) u32);

impl NodeId {
    /// The place in the order in which nodes were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl HfId {
    /// The place in the order in which frequencies were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl CnrId {
    /// The place in the order in which nets were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl RadioId {
    /// The place in the order in which channels were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortId {
    /// The place in the order in which interfaces were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// The place in the order in which links were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl AppId {
    /// The place in the order in which applications were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

//! Interfaces by name, each in its own network namespace.

use std::fmt;
use std::io;
use std::str::FromStr;

use gateway::sys::port::{NoPort, Port};

use crate::namespace::{self, Unusable};

/// An interface, in a named network namespace or in ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct End {
    /// The namespace.
    pub namespace: Option<String>,
    /// The interface's name in `ip link`.
    pub interface: String,
}

/// Why an end cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum NoEnd {
    /// It is down.
    #[error("{0} is down: `ip {space}link set dev {name} up` changes that", space = .0.in_space(), name = .0.interface)]
    Down(End),
    /// There is no such interface.
    #[error("there is no interface {0}: `ip link` shows those there are in a network namespace")]
    Missing(End),
    /// Its namespace cannot be used.
    #[error(transparent)]
    Namespace(#[from] Unusable),
    /// It carries something else.
    #[error("{0} is not an Ethernet interface: a veth, a bridge or a network card would do")]
    NotEthernet(End),
    /// We have no right to.
    #[error("joining interfaces needs root (or CAP_NET_RAW): run this with sudo")]
    NotPermitted,
    /// Something else.
    #[error("cannot open {0}: {1}")]
    System(End, io::Error),
}

impl End {
    pub(crate) fn open(&self) -> Result<Port, NoEnd> {
        let open = || Port::open(&self.interface);
        let opened = match &self.namespace {
            Some(name) => namespace::within(name, open)?,
            None => open(),
        };
        opened.map_err(|reason| match reason {
            NoPort::Down => NoEnd::Down(self.clone()),
            NoPort::Missing => NoEnd::Missing(self.clone()),
            NoPort::NotEthernet => NoEnd::NotEthernet(self.clone()),
            NoPort::NotPermitted => NoEnd::NotPermitted,
            NoPort::System(error) => NoEnd::System(self.clone(), error),
        })
    }

    fn in_space(&self) -> String {
        self.namespace.iter().map(|name| format!("-n {name} ")).collect()
    }
}

impl FromStr for End {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, interface) = match text.split_once(':') {
            Some((namespace, interface)) => (Some(namespace), interface),
            None => (None, text),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', ':']) && name != "..";
        if !is_name(interface) || !namespace.is_none_or(is_name) {
            return Err("an end is INTERFACE or NETNS:INTERFACE");
        }
        Ok(Self { namespace: namespace.map(str::to_owned), interface: interface.to_owned() })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}:{}", self.interface),
            None => f.write_str(&self.interface),
        }
    }
}

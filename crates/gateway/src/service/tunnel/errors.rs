//! ICMP errors to those whose packets cannot go on.

use std::net::{IpAddr, Ipv4Addr};

use proto::budget::Budget;
use proto::ip::{Header, icmp};
use proto::time::Time;

use crate::config;
use crate::linux::offload;

/// Who speaks for a gateway without an address of that version (RFC 7600).
const DUMMY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));

/// Writes them, and not too many.
#[derive(Debug)]
pub(super) struct Errors {
    addresses: Vec<IpAddr>,
    budget: Budget,
    message: Vec<u8>,
}

impl Errors {
    pub(super) fn new(config: &config::Tunnel) -> Self {
        let addresses = config.addresses.iter().map(|prefix| prefix.address()).collect();
        Self {
            addresses,
            budget: Budget::per_second(Time::ZERO, icmp::ERRORS_PER_SECOND),
            message: Vec::new(),
        }
    }

    /// The error as the device takes it; `None` when none is owed or there were too many.
    pub(super) fn answer(
        &mut self,
        now: Time,
        error: icmp::Error,
        offender: &[u8],
    ) -> Option<&[u8]> {
        let header = Header::parse(offender).ok()?;
        let own = self.addresses.iter().find(|own| own.is_ipv4() == header.is_v4());
        let own = match own {
            Some(&own) => own,
            None if header.is_v4() => DUMMY,
            None => header.destination,
        };
        self.message.clear();
        self.message.extend_from_slice(&[0; offload::HEADER]);
        let is_owed = error.emit(own, offender, &mut self.message);
        (is_owed && self.budget.spend(now)).then_some(&self.message[..])
    }
}

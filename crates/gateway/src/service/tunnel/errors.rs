//! ICMP errors to those whose packets cannot go on.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proto::ip::{Header, icmp};
use proto::time::Time;

use crate::config;
use crate::linux::offload;

/// Errors in a second at most.
const ERRORS: u32 = 200;
/// Who speaks for a gateway without an address of that version (RFC 7600).
const DUMMY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));

/// Writes them, and not too many.
#[derive(Debug)]
pub(super) struct Errors {
    addresses: Vec<IpAddr>,
    since: Time,
    sent: u32,
    message: Vec<u8>,
}

impl Errors {
    pub(super) fn new(config: &config::Tunnel) -> Self {
        let addresses = config.addresses.iter().map(|prefix| prefix.address()).collect();
        Self { addresses, since: Time::ZERO, sent: 0, message: Vec::new() }
    }

    /// The error as the device takes it; `None` when none is owed or there were too many.
    pub(super) fn answer(
        &mut self,
        now: Time,
        error: icmp::Error,
        offender: &[u8],
    ) -> Option<&[u8]> {
        let header = Header::parse(offender).ok()?;
        if now.since(self.since) >= Duration::from_secs(1) {
            (self.since, self.sent) = (now, 0);
        }
        if self.sent >= ERRORS {
            return None;
        }
        let own = self.addresses.iter().find(|own| own.is_ipv4() == header.is_v4());
        let own = match own {
            Some(&own) => own,
            None if header.is_v4() => DUMMY,
            None => header.destination,
        };
        self.message.clear();
        self.message.extend_from_slice(&[0; offload::HEADER]);
        if !error.emit(own, offender, &mut self.message) {
            return None;
        }
        self.sent += 1;
        Some(&self.message)
    }
}

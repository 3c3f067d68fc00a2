//! Writes ICMP errors to senders whose packets cannot be forwarded.

use std::net::{IpAddr, Ipv4Addr};

use base::budget::Budget;
use base::ip::{Header, icmp};
use base::time::Time;

use crate::config;
use crate::linux::offload;

/// The source address of a gateway without an IPv4 address (RFC 7600).
const DUMMY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));

/// Writes them, and not too many.
#[derive(Debug)]
pub struct Errors {
    addresses: Vec<IpAddr>,
    budget: Budget,
    message: Vec<u8>,
}

impl Errors {
    pub fn new(config: &config::Tunnel) -> Self {
        let addresses = config.addresses.iter().map(|prefix| prefix.address()).collect();
        Self {
            addresses,
            budget: Budget::per_second(Time::ZERO, icmp::ERRORS_PER_SECOND),
            message: Vec::new(),
        }
    }

    /// The answer to the sender of a packet.
    pub fn answer(&mut self, now: Time, error: icmp::Error, offender: &[u8]) -> Answer<'_> {
        let Ok(header) = Header::parse(offender) else { return Answer::None };
        let own = self.addresses.iter().find(|own| own.is_ipv4() == header.is_v4());
        let own = match own {
            Some(&own) => own,
            None if header.is_v4() => DUMMY,
            None => header.destination,
        };
        self.message.clear();
        self.message.extend_from_slice(&[0; offload::HEADER]);
        if !error.emit(own, offender, &mut self.message) {
            return Answer::None;
        }
        if self.budget.spend(now) { Answer::Message(&self.message) } else { Answer::TooMany }
    }
}

/// What becomes of an error.
#[derive(Debug, Eq, PartialEq)]
pub enum Answer<'a> {
    /// The error message, in the form that the device takes.
    Message(&'a [u8]),
    /// No error is owed, as for a packet sent to everybody.
    None,
    /// It would be owed.
    TooMany,
}

#[cfg(test)]
mod tests {
    use base::ip::Prefix;

    use super::*;

    #[test]
    fn what_is_not_owed_is_not_counted_among_too_many() {
        let own: Prefix = "10.77.0.1/24".parse().unwrap();
        let mut errors = Errors {
            addresses: vec![own.address()],
            budget: Budget::per_second(Time::ZERO, 2),
            message: Vec::new(),
        };
        let packet = |to: [u8; 4]| {
            let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
            packet.extend_from_slice(&to);
            packet.extend_from_slice(&[0; 8]);
            base::ip::rewrite_v4_checksum(&mut packet[..20]);
            packet
        };
        let mut answer = |to| {
            let answer = errors.answer(Time::ZERO, icmp::Error::HostUnreachable, &packet(to));
            match answer {
                Answer::Message(_) => "told",
                Answer::None => "not owed",
                Answer::TooMany => "too many",
            }
        };

        let everybody: Vec<_> = (0..5).map(|_| answer([224, 0, 0, 251])).collect();
        let one: Vec<_> = (0..4).map(|_| answer([10, 9, 9, 9])).collect();

        assert_eq!(everybody, ["not owed"; 5]);
        assert_eq!(one, ["told", "told", "too many", "too many"]);
    }
}

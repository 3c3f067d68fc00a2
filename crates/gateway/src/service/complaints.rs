//! Log lines that neighbours can provoke: so many of a kind in a minute, and how many were left out.

use base::time::Time;
use std::collections::BTreeMap;

use crate::lines::Allowance;

/// What a line is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    AddressDisputed,
    AddressMisplaced,
    ClientTurnedAway,
    CloseUnconfirmed,
    ConnectionKilled,
    Device,
    Firewall,
    FurtherPath,
    HandshakeUnknown,
    HelloForged,
    KeyDiffers,
    Modem,
    NeighbourDown,
    NeighbourUp,
    NoAddress,
    NoFarClient,
    NodeLeft,
    NodeUnreadable,
    OutputForbidden,
    OwnNodeMisnamed,
    PathChanged,
    PathDown,
    PathUp,
    PeerClock,
    PeerExpired,
    PeerHeard,
    PeerMoved,
    PeerSilent,
    PeerUnanswering,
    PeerUnconfirmed,
    PeerUnreadable,
    PeerUp,
    ProfileDiffers,
    ProgramConnected,
    RouteChanged,
    RouteConflicting,
    SealRefused,
    SealRefusedThere,
    Server,
    TargetForbidden,
    TlsFailed,
    Unclaimed,
    Unreadable,
    VersionDiffers,
}

/// Which lines were written lately.
#[derive(Debug, Default)]
pub struct Complaints(BTreeMap<Subject, Allowance>);

impl Complaints {
    /// Whether a line may be written now, and if so how many lines of the same kind were left out before.
    pub fn admit(&mut self, now: Time, subject: Subject) -> Option<u64> {
        let allowance =
            self.0.entry(subject).or_insert_with(|| Allowance::new(now, subject.lines()));
        allowance.admit(now).map(|admitted| admitted.left_out)
    }

    /// Lines left out and not yet mentioned in a later line.
    pub fn untold(&self) -> u64 {
        self.0.values().map(Allowance::untold).sum()
    }
}

impl Subject {
    /// Lines in a minute at most.
    fn lines(self) -> u32 {
        match self {
            Self::AddressDisputed
            | Self::AddressMisplaced
            | Self::CloseUnconfirmed
            | Self::HandshakeUnknown
            | Self::HelloForged
            | Self::KeyDiffers
            | Self::NoAddress
            | Self::NoFarClient
            | Self::NodeLeft
            | Self::NodeUnreadable
            | Self::OutputForbidden
            | Self::OwnNodeMisnamed
            | Self::PathDown
            | Self::PathUp
            | Self::PeerClock
            | Self::PeerExpired
            | Self::PeerHeard
            | Self::PeerMoved
            | Self::PeerSilent
            | Self::PeerUnanswering
            | Self::PeerUnconfirmed
            | Self::PeerUnreadable
            | Self::PeerUp
            | Self::ProfileDiffers
            | Self::RouteConflicting
            | Self::SealRefused
            | Self::SealRefusedThere
            | Self::TargetForbidden
            | Self::Unclaimed
            | Self::Unreadable
            | Self::VersionDiffers => 1,
            // A search for the MTU of one path tells each longer packet that passes.
            // There are several paths.
            Self::FurtherPath | Self::PathChanged => 10,
            Self::ClientTurnedAway
            | Self::Device
            | Self::Firewall
            | Self::Modem
            | Self::NeighbourDown
            | Self::NeighbourUp
            | Self::ProgramConnected
            | Self::RouteChanged
            | Self::Server
            | Self::TlsFailed => 30,
            Self::ConnectionKilled => 600,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_kind_is_said_once_a_minute_with_how_many_were_left_out() {
        let mut complaints = Complaints::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut say = |seconds| complaints.admit(at(seconds), Subject::ProfileDiffers);

        assert_eq!(say(1), Some(0));
        for _ in 0..5_000 {
            assert_eq!(say(2), None);
        }
        assert_eq!(say(61), Some(5_000));
        assert_eq!(say(62), None);
        assert_eq!(complaints.admit(at(62), Subject::KeyDiffers), Some(0), "another kind");
        assert_eq!(complaints.untold(), 1);
        assert_eq!(complaints.admit(at(200), Subject::ProfileDiffers), Some(1));
        assert_eq!(complaints.untold(), 0);
    }

    #[test]
    fn some_kinds_are_said_more_often() {
        let mut complaints = Complaints::default();

        let said = (0..100).filter_map(|_| complaints.admit(Time::ZERO, Subject::NeighbourUp));

        assert_eq!(said.count(), 30);
        assert_eq!(complaints.untold(), 70);
    }
}

//! The size limit of the queue before a medium, the same for simulated and emulated queues.

/// How much may wait before a medium while something is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Packets.
    pub packets: usize,
    /// Their octets.
    pub octets: usize,
}

/// Admission of a packet at a medium: sent, queued or refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It is sent at once.
    Sent,
    /// It waits.
    Waits,
    /// The queue has no room for the packet.
    Refused,
}

impl Room {
    /// Decides whether a packet is queued, given the packets and octets that already wait.
    ///
    /// The packet being sent does not count as waiting. On an idle medium with an empty queue a packet therefore
    /// needs no room, however little there is.
    #[must_use]
    pub fn admit(self, is_idle: bool, waiting: (usize, usize), octets: usize) -> Admission {
        let (before, before_octets) = waiting;
        if is_idle && before == 0 {
            Admission::Sent
        } else if before < self.packets && before_octets.saturating_add(octets) <= self.octets {
            Admission::Waits
        } else {
            Admission::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_needed_where_nothing_waits_and_the_medium_is_idle() {
        let none = Room { packets: 0, octets: 0 };
        let some = Room { packets: 2, octets: 1_000 };

        assert_eq!(none.admit(true, (0, 0), 1_500), Admission::Sent);
        assert_eq!(none.admit(false, (0, 0), 1), Admission::Refused);
        assert_eq!(some.admit(true, (0, 0), 1_500), Admission::Sent);
        assert_eq!(some.admit(true, (1, 500), 500), Admission::Waits);
        assert_eq!(some.admit(false, (1, 500), 501), Admission::Refused);
        assert_eq!(some.admit(false, (2, 2), 1), Admission::Refused);
    }
}

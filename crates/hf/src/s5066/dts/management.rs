//! Order wire messages that are acknowledged: one at a time, each taken once (Annex C, 3.9).

use std::collections::VecDeque;

use super::wire::{self, Eow, MAX_MESSAGE};

/// Messages that may wait.
const MAX_WAITING: usize = 16;

/// An order wire message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// The contents of the order wire.
    pub eow: Eow,
    /// The rest of the message, at most [`MAX_MESSAGE`] octets.
    pub extended: Vec<u8>,
}

/// The outcome of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The other end has it.
    Acknowledged(Message),
    /// The message was never acknowledged: the link is lost.
    Failed(Message),
}

/// A management frame to send: the order wire, and the frame's own fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ManagementFrame<'a> {
    /// The order wire of the frame; any may be put in an acknowledgement.
    pub eow: Option<Eow>,
    /// The rest.
    pub management: wire::Management<'a>,
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Messages taken.
        pub heard: counter(messages);
        /// Messages that had been taken before.
        pub repeats: counter(messages);
        /// Messages acknowledged by the other end.
        pub acknowledged: counter(messages);
        /// Messages that were not.
        pub failed: counter(messages);
        /// Acknowledgements of nothing.
        pub stray: counter(messages);
    }
}

/// One end's messages to and from a peer.
#[derive(Clone, Debug)]
pub struct Messages {
    max_tries: u32,
    waiting: VecDeque<Message>,
    open: Option<OpenMessage>,
    next_id: u8,
    heard: Option<u8>,
    answer_due: Option<u8>,
    sent: VecDeque<Sent>,
    stats: Stats,
}

#[derive(Clone, Debug)]
struct OpenMessage {
    message: Message,
    id: u8,
    tries: u32,
    is_due: bool,
}

impl Messages {
    /// Nothing was sent; a message is sent in at most `max_tries` transmissions.
    #[must_use]
    pub fn new(max_tries: u32) -> Self {
        Self {
            max_tries,
            waiting: VecDeque::new(),
            open: None,
            next_id: 0,
            heard: None,
            answer_due: None,
            sent: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes a message to be sent after those before it.
    ///
    /// # Errors
    /// Gives it back when too many wait, or it is too long.
    pub fn push(&mut self, message: Message) -> Result<(), Message> {
        if self.waiting.len() >= MAX_WAITING || message.extended.len() > MAX_MESSAGE {
            return Err(message);
        }
        self.waiting.push_back(message);
        Ok(())
    }

    /// Takes a frame of the peer; gives the message if it is new.
    pub fn handle_management(
        &mut self,
        eow: Eow,
        management: &wire::Management<'_>,
    ) -> Option<Message> {
        if management.is_ack {
            match self.open.take_if(|open| open.id == management.id) {
                Some(open) => {
                    self.stats.acknowledged += 1;
                    self.sent.push_back(Sent::Acknowledged(open.message));
                }
                None => self.stats.stray += 1,
            }
        }
        if !management.is_valid || management.is_ack {
            return None;
        }
        self.answer_due = Some(management.id);
        if self.heard == Some(management.id) {
            self.stats.repeats += 1;
            return None;
        }
        self.heard = Some(management.id);
        self.stats.heard += 1;
        Some(Message { eow, extended: management.extended.unwrap_or_default().to_vec() })
    }

    /// A transmission of this end got no answer: the open message is due again, or has failed.
    pub fn handle_silence(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if open.tries < self.max_tries {
            open.is_due = true;
            self.open = Some(open);
        } else {
            self.stats.failed += 1;
            self.sent.push_back(Sent::Failed(open.message));
        }
    }

    /// The next frame for a transmission; a returned frame counts as sent.
    pub fn poll(&mut self) -> Option<ManagementFrame<'_>> {
        if let Some(id) = self.answer_due.take() {
            let (is_valid, is_ack) = (false, true);
            let management = wire::Management { is_valid, is_ack, id, extended: None };
            return Some(ManagementFrame { eow: None, management });
        }
        if self.open.is_none()
            && let Some(message) = self.waiting.pop_front()
        {
            self.open = Some(OpenMessage { message, id: self.next_id, tries: 0, is_due: true });
            self.next_id = self.next_id.wrapping_add(1);
        }
        let open = self.open.as_mut().filter(|open| open.is_due)?;
        open.is_due = false;
        open.tries += 1;
        let extended = &open.message.extended;
        let management = wire::Management {
            is_valid: true,
            is_ack: false,
            id: open.id,
            extended: (!extended.is_empty()).then_some(extended),
        };
        Some(ManagementFrame { eow: Some(open.message.eow), management })
    }

    /// The outcome of a message.
    pub fn poll_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Whether there is something to be sent.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let is_open_due = self.open.as_ref().map(|open| open.is_due);
        self.answer_due.is_some() || is_open_due.unwrap_or(!self.waiting.is_empty())
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s5066::dts::wire::RateRequest;

    #[test]
    fn each_message_is_taken_once_whatever_is_lost() {
        for fate in 0..256_u32 {
            let mut ends = [Messages::new(10), Messages::new(10)];
            for rate in 0..2 {
                ends[0].push(message(rate)).unwrap();
            }
            let mut taken = Vec::new();

            for turn in 0..24 {
                let [near, far] = &mut ends;
                let (from, to) = if turn % 2 == 0 { (near, far) } else { (far, near) };
                while let Some(ManagementFrame { eow, management }) = from.poll() {
                    if turn >= 8 || fate >> turn & 1 == 1 {
                        taken.extend(to.handle_management(eow.unwrap_or_default(), &management));
                    }
                }
                if turn % 2 == 1 {
                    ends[0].handle_silence();
                }
            }

            assert_eq!(taken, [message(0), message(1)], "{fate:b}");
            assert_eq!(ends[0].poll_sent(), Some(Sent::Acknowledged(message(0))));
            assert_eq!(ends[0].poll_sent(), Some(Sent::Acknowledged(message(1))));
        }
    }

    #[test]
    fn a_message_fails_after_its_tries() {
        let mut end = Messages::new(3);
        end.push(message(0)).unwrap();

        let mut sent = 0;
        for _ in 0..10 {
            sent += u32::from(end.poll().is_some());
            end.handle_silence();
        }

        assert_eq!(sent, 3);
        assert_eq!(end.poll_sent(), Some(Sent::Failed(message(0))));
        assert!(!end.is_due());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut end = Messages::new(3);
        let refused = (0..100).filter(|_| end.push(message(0)).is_err()).count();

        assert_eq!(refused, 100 - MAX_WAITING);
        assert!(end.push(Message { extended: vec![0; 24], ..message(0) }).is_err());
    }

    fn message(rate: u8) -> Message {
        let request = RateRequest { rate, ..RateRequest::default() };
        Message { eow: Eow::RateRequest(request), extended: vec![rate; 3] }
    }
}

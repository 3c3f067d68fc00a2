//! What a node keeps of one other station.

use super::super::cas::Link;
use super::super::cas::cpdu::Cpdu;
use super::super::dts::arq;
use super::super::dts::policy::Quality;
use super::super::dts::wire::Numbers;
use super::super::service::{Failure, Mode, Request};
use super::waiting::Waiting;
use super::{Config, Extensions};
use crate::time::Time;

/// Another station.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) link: Link,
    /// Requests that no frame has carried yet.
    pub(super) waiting: Waiting,
    pub(super) sender: arq::Sender,
    pub(super) receiver: arq::Receiver,
    pub(super) quality: Quality,
    /// What it can do, as far as it is known or taken for granted, and we too.
    pub(super) extensions: Extensions,
    /// Whether it has sent what must be acknowledged.
    pub(super) is_ack_due: bool,
    /// Answers that did not come, in a row.
    pub(super) silences: u32,
    /// Our transmission that last had data for it.
    pub(super) served: u64,
    pub(super) heard_at: Time,
    windows: [u32; 2],
}

impl Peer {
    pub(super) fn new(config: &Config, numbers: Numbers) -> Self {
        let windows = [config.short_window, config.long_window];
        let window = window(windows, numbers);
        Self {
            link: Link::new(config.link),
            waiting: Waiting::default(),
            sender: arq::Sender::new(numbers, window),
            receiver: arq::Receiver::new(numbers),
            quality: Quality::new(),
            extensions: config.extensions.and(config.assumed),
            is_ack_due: false,
            silences: 0,
            served: 0,
            heard_at: Time::ZERO,
            windows,
        }
    }

    /// Calls it; numbers begin anew.
    pub(super) fn call(&mut self, id: u16, is_exclusive: bool, numbers: Numbers) {
        let numbers = if self.extensions.long_numbers { numbers } else { Numbers::Short };
        self.link.call(id, is_exclusive, numbers == Numbers::Long);
        self.start_anew(numbers);
        self.silences = 0;
    }

    /// Both windows begin anew.
    pub(super) fn start_anew(&mut self, numbers: Numbers) {
        let window = window(self.windows, numbers);
        self.sender.restart(numbers, window);
        self.receiver.restart(numbers);
        self.is_ack_due = false;
    }

    /// Our window begins anew, with numbers that the peer can read.
    pub(super) fn change_numbers(&mut self, numbers: Numbers) {
        if self.sender.numbers() != numbers {
            self.start_anew(numbers);
        }
    }

    /// Hands the sender a request.
    pub(super) fn push(&mut self, request: &Request) {
        let mut octets = Vec::with_capacity(Cpdu::HEADER + request.s_pdu.len());
        Cpdu::Data(&request.s_pdu).emit(&mut octets);
        let in_order = matches!(request.mode, Mode::Arq { in_order: true });
        let Request { id, expires, .. } = *request;
        // The sender is given the next C_PDU when it has none, and all come from clients' U_PDUs.
        let pushed = self.sender.push(arq::Cpdu { id, octets, in_order, expires });
        pushed.expect("a sender without a backlog takes an S_PDU");
    }

    /// Gives up all that was to be sent to it.
    pub(super) fn fail(&mut self, failure: Failure) -> Vec<Request> {
        self.sender.fail(failure);
        self.is_ack_due = false;
        self.waiting.drain()
    }

    /// Whether there is data for it.
    pub(super) fn has_data(&self) -> bool {
        !self.waiting.is_empty() || self.has_begun()
    }

    /// Whether C_PDUs are on their way.
    pub(super) fn has_begun(&self) -> bool {
        let backlog = self.sender.backlog();
        backlog.unsent_c_pdus > 0 || backlog.due > 0 || backlog.unanswered > 0
    }

    /// Whether something can be sent now that it must answer.
    pub(super) fn wants_answer(&self) -> bool {
        let can_send = !self.sender.backlog().is_blocked() || !self.waiting.is_empty();
        self.is_urgent() || can_send
    }

    /// Whether a frame of data can go to it now.
    pub(super) fn has_frames(&self) -> bool {
        self.may_send() && (!self.sender.backlog().is_blocked() || !self.waiting.is_empty())
    }

    /// Whether that is about the link itself.
    pub(super) fn is_urgent(&self) -> bool {
        self.owes_request()
    }

    /// Whether there is anything to send to it now.
    pub(super) fn has_work(&self) -> bool {
        self.is_ack_due || self.link.owed().is_some() || self.wants_answer()
    }

    /// Whether the next C_PDU for the link asks for an answer.
    pub(super) fn owes_request(&self) -> bool {
        let owed = self.link.owed();
        owed.is_some_and(|owed| matches!(owed.c_pdu, Cpdu::Request { .. } | Cpdu::Break(_)))
    }

    /// Whether data may go to it.
    pub(super) fn may_send(&self) -> bool {
        let may_pipeline = self.link.is_calling() && self.extensions.pipelined;
        self.link.is_up() || may_pipeline
    }

    /// Whether it can be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.link.is_down() && !self.has_work() && !self.has_data()
    }

    /// Frames of control that are owed.
    pub(super) fn control_frames(&self) -> usize {
        usize::from(self.link.owed().is_some()) * 2
    }

    /// Octets on the air of one acknowledgement of all that it sent.
    pub(super) fn ack_len(&self, header: usize) -> usize {
        let acks = self.receiver.acks(ACK_LIST);
        acks.iter().map(|ack| header + ack.size()).sum()
    }

    /// Octets on the air of what is to be sent with acknowledgement: `header` is what a frame
    /// adds to its segment.
    pub(super) fn data_len(&self, header: usize, segment: usize) -> usize {
        if !self.may_send() {
            return 0;
        }
        let backlog = self.sender.backlog();
        let pieces = |octets: usize| octets.div_ceil(segment).max(1);
        let (mut frames, mut octets) = (0, 0);
        if backlog.unsent_c_pdus > 0 {
            frames += pieces(backlog.unsent) + backlog.unsent_c_pdus - 1;
            octets += backlog.unsent;
        }
        // Before a call is answered, what was sent once is enough.
        if self.link.is_up() || self.silences == 0 {
            for request in self.waiting.iter() {
                let len = Cpdu::HEADER + request.s_pdu.len();
                frames += pieces(len);
                octets += len;
            }
        }
        let fresh = octets + frames * header;
        let most = backlog.window * (segment + header);
        backlog.due_octets + backlog.due * header + fresh.min(most)
    }
}

/// Octets of an acknowledgement's list at most, so that few bit errors hit it.
pub(super) const ACK_LIST: usize = 128;

fn window([short, long]: [u32; 2], numbers: Numbers) -> u32 {
    match numbers {
        Numbers::Long => long,
        Numbers::Short => short,
    }
}

//! The state that a node keeps for another station.

use base::time::Time;

use super::super::cas::cpdu::Cpdu;
use super::super::cas::{self, PhysicalLink};
use super::super::dts::policy::Quality;
use super::super::dts::wire::{Body, Numbers};
use super::super::dts::{arq, expedited, management, reset};
use super::super::service::{Failure, MAX_PRIORITY, Mode, Request};
use super::contact::Contact;
use super::introduction;
use super::urgent::Lately;
use super::waiting::Waiting;
use super::{Config, Extensions, Node};
use crate::modem::Waveform;

/// Another station.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) link: PhysicalLink,
    /// Requests of which no frame has carried anything yet.
    pub(super) waiting: Waiting,
    pub(super) sender: arq::Sender,
    pub(super) receiver: arq::Receiver,
    pub(super) expedited: expedited::Sender,
    pub(super) expedited_in: expedited::Receiver,
    pub(super) messages: management::Messages,
    pub(super) resets: reset::Resets,
    pub(super) quality: Quality,
    /// The extensions that it has announced and we have too.
    pub(super) extensions: Extensions,
    /// Whether it has sent data that must be acknowledged.
    pub(super) is_ack_due: bool,
    pub(super) contact: Contact,
    /// Whether an exclusive link is wanted; the call is made once data under way is finished.
    pub(super) wants_exclusive: bool,
    /// Whether no new data is begun, because an exclusive link to it or to another is wanted.
    pub(super) is_finishing: bool,
    /// The waveform the peer requested from us, until the peer knows our acceptance.
    pub(super) wanted_rate: Option<Waveform>,
    /// The number of our latest transmission with data for it.
    pub(super) served: u64,
    pub(super) lately: Lately,
    windows: [u32; 2],
    /// The first number of this link's resets, and the number of requests for a reset.
    reset_id: u8,
    tries: u32,
}

impl Peer {
    pub(super) fn new(config: &Config, numbers: Numbers, first_id: u8) -> Self {
        let windows = [config.short_window, config.long_window];
        let window = window(windows, numbers);
        Self {
            link: PhysicalLink::new(cas::link::Config { idle: config.idle(), ..config.link }),
            waiting: Waiting::default(),
            sender: arq::Sender::new(numbers, window),
            receiver: arq::Receiver::new(numbers),
            expedited: expedited::Sender::new(),
            expedited_in: expedited::Receiver::new(),
            messages: management::Messages::new(config.silences),
            resets: reset::Resets::new(first_id, config.silences),
            quality: Quality::new(),
            extensions: Extensions::NONE,
            is_ack_due: false,
            contact: Contact::new(),
            wants_exclusive: false,
            is_finishing: false,
            wanted_rate: None,
            served: 0,
            lately: Lately::default(),
            windows,
            reset_id: first_id,
            tries: config.silences,
        }
    }

    /// Calls it; sequence numbers restart.
    pub(super) fn call(&mut self, id: u16, is_exclusive: bool, numbers: Numbers) {
        // Long numbers are requested, but not used before the station has announced them.
        let is_readable = self.extensions.long_numbers || !self.extensions.pipelined;
        let numbers = if is_readable { numbers } else { Numbers::Short };
        // A station that was lost is called fewer times, to cost other stations little.
        let calls = self.contact.is_lost.then_some(CALLS_OF_LOST);
        self.link.call(id, is_exclusive, numbers == Numbers::Long, calls);
        self.start_anew(numbers);
        self.contact.silences = 0;
    }

    /// Restarts both windows.
    pub(super) fn start_anew(&mut self, numbers: Numbers) {
        let window = window(self.windows, numbers);
        self.sender.restart(numbers, window);
        self.receiver.restart(numbers);
        self.expedited.fail(Failure::LinkLost);
        self.expedited_in = expedited::Receiver::new();
        self.reset_id = self.reset_id.wrapping_add(RESET_STEP);
        self.resets = reset::Resets::new(self.reset_id, self.tries);
        self.is_ack_due = false;
    }

    /// Restarts both windows during a link.
    pub(super) fn reset(&mut self, numbers: Numbers) {
        if numbers == self.sender.numbers() {
            self.sender.reset();
            self.receiver.reset();
        } else {
            let window = window(self.windows, numbers);
            self.sender.restart(numbers, window);
            self.receiver.restart(numbers);
        }
    }

    /// Restarts our window with numbers that the peer can read.
    pub(super) fn change_numbers(&mut self, numbers: Numbers) {
        if self.sender.numbers() != numbers {
            // It can read nothing that was sent since the call.
            self.sender.reset_since(0);
            self.start_anew(numbers);
        }
    }

    /// Hands the sender a request.
    pub(super) fn push(&mut self, request: &Request) {
        let pushed = self.sender.push(c_pdu(request));
        // It gets the next one only when it has none, and each comes from a client's U_PDU.
        pushed.expect("a sender without a backlog takes an S_PDU");
    }

    /// Hands the expedited sender as many expedited requests as it takes.
    pub(super) fn push_expedited(&mut self) {
        while self.begins_new()
            && !self.expedited.is_due()
            && !self.expedited.is_unanswered()
            && let Some(request) = self.waiting.pop_if(true)
        {
            let pushed = self.expedited.push(c_pdu(&request));
            pushed.expect("a sender with nothing to send takes an S_PDU");
        }
    }

    /// Hands the sender the next request if it has none, or if the request is more urgent than all
    /// that it has.
    pub(super) fn push_waiting(&mut self) {
        while self.begins_new()
            && let Some(priority) = self.waiting.first_if(false).map(|it| it.priority)
            && (self.sender.backlog().unsent_c_pdus == 0 || priority > self.sender.urgency())
            && let Some(request) = self.waiting.pop_if(false)
        {
            self.push(&request);
        }
    }

    /// Fails all requests to it and returns them. With `may_retry`, requests that may be retried stay
    /// and pause for a while; the pause gets longer until the station is heard again.
    pub(super) fn fail(&mut self, now: Time, failure: Failure, may_retry: bool) -> Vec<Request> {
        self.sender.fail(failure, may_retry);
        self.expedited.fail(failure);
        self.is_ack_due = false;
        let given_up = self.waiting.give_up(may_retry);
        if self.has_data() {
            self.contact.pause(now);
        }
        given_up
    }

    /// Whether data waits for the peer.
    pub(super) fn has_data(&self) -> bool {
        !self.waiting.is_empty() || self.has_begun()
    }

    /// Whether C_PDUs are on their way.
    pub(super) fn has_begun(&self) -> bool {
        let backlog = self.sender.backlog();
        backlog.unsent_c_pdus > 0
            || backlog.due > 0
            || backlog.unanswered > 0
            || self.expedited.is_due()
            || self.expedited.is_unanswered()
    }

    /// Whether something that it must answer can be sent now.
    pub(super) fn wants_answer(&self) -> bool {
        self.is_urgent() || self.can_begin() && self.has_frames()
    }

    /// The highest priority among requests and retransmissions for it.
    pub(super) fn urgency(&self) -> u8 {
        if self.is_called_exclusively() {
            return MAX_PRIORITY;
        }
        let waiting = self.waiting.first().map_or(0, |request| request.priority);
        waiting.max(self.sender.urgency())
    }

    /// The lowest priority among requests and data for the peer: the priority of data that fills transmissions.
    pub(super) fn least_urgency(&self) -> u8 {
        let waiting = self.waiting.last_if(false).map(|request| request.priority);
        waiting.into_iter().chain(self.sender.least_urgency()).min().unwrap_or_default()
    }

    /// Whether there is data to be transmitted or retransmitted.
    fn has_frames(&self) -> bool {
        let backlog = self.sender.backlog();
        let has_waiting =
            |expedited| self.begins_new() && self.waiting.first_if(expedited).is_some();
        let is_new = backlog.unsent_c_pdus > 0 && self.takes_new() || has_waiting(false);
        // Only one expedited C_PDU may be unacknowledged (Annex C, section 3.4).
        let is_next = has_waiting(true) && !self.expedited.is_unanswered();
        backlog.due > 0 || is_new && backlog.window > 0 || self.expedited.is_due() || is_next
    }

    /// Whether new data may be sent: before a call is answered, each segment is sent only once.
    pub(super) fn takes_new(&self) -> bool {
        !self.link.is_calling() || self.contact.silences == 0
    }

    /// Whether waiting requests may be handed to the sender.
    fn begins_new(&self) -> bool {
        self.takes_new() && !self.is_finishing
    }

    /// Whether a call for an exclusive link with it is unanswered.
    pub(super) fn is_called_exclusively(&self) -> bool {
        self.wants_exclusive || self.link.is_calling() && self.link.is_exclusive()
    }

    /// Whether the call for an exclusive link must be sent, after acknowledgements for the soft one.
    pub(super) fn owes_exclusive(&self) -> bool {
        self.wants_exclusive && !self.has_begun()
    }

    /// Whether data can be sent to it now, perhaps after a call in the same transmission.
    fn can_begin(&self) -> bool {
        self.link.is_down() && !self.contact.is_pausing() || self.may_send()
    }

    /// Whether a data frame for it can be sent now.
    pub(super) fn sends_data(&self) -> bool {
        self.may_send() && self.has_frames()
    }

    /// Whether a frame about the link itself is to be sent.
    pub(super) fn is_urgent(&self) -> bool {
        self.owes_request()
            || self.owes_exclusive()
            || self.messages.is_due()
            || self.resets.is_due()
    }

    /// Whether there is anything to send to it now.
    pub(super) fn has_work(&self) -> bool {
        self.is_ack_due || self.link.owed().is_some() || self.wants_answer()
    }

    /// Whether the next C_PDU about the link asks for an answer.
    pub(super) fn owes_request(&self) -> bool {
        let owed = self.link.owed();
        owed.is_some_and(|owed| matches!(owed.c_pdu, Cpdu::Request { .. } | Cpdu::Break(_)))
    }

    /// Whether data may be sent to it.
    pub(super) fn may_send(&self) -> bool {
        let may_pipeline = self.link.may_pipeline() && self.extensions.pipelined;
        (self.link.is_up() || may_pipeline) && !self.resets.is_open()
    }

    /// When a pause ends, or when the next request expires.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        [
            self.contact.next_timeout(),
            self.waiting.next_expiry(),
            self.sender.next_timeout(),
            self.expedited.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether it can be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.link.is_down() && !self.has_work() && !self.has_data()
    }

    /// Octets on the air of the link control, messages and resets to be sent now. Frames that ask for
    /// an answer, and those after them, count only if the transmission is for this peer. `header` is
    /// the overhead of a data frame.
    pub(super) fn control_len(&self, header: usize, introduces: bool, is_for_it: bool) -> usize {
        let c_pdu = header + Node::DATAGRAM_EXTRA;
        let copies = if introduces { introduction::copies(self.link.is_long()) } else { 0 };
        let both = 2 * c_pdu + copies * header;
        let owed = self.link.owed().filter(|_| is_for_it || !self.owes_request());
        let link = owed.map_or(0, |owed| match owed.c_pdu {
            Cpdu::Request { .. } | Cpdu::Accepted => both,
            Cpdu::Break(_) => 2 * c_pdu,
            Cpdu::BreakConfirm | Cpdu::Data(_) | Cpdu::Rejected(_) => c_pdu,
        });
        if !is_for_it {
            return link;
        }
        let exclusive = if self.owes_exclusive() { both } else { 0 };
        let others = usize::from(self.messages.is_due()) + usize::from(self.resets.is_due());
        link.max(exclusive) + others * header
    }

    /// Octets on the air for one acknowledgement of all the peer's data, with this many octets of addresses.
    pub(super) fn ack_len(&self, addresses: usize) -> usize {
        let acks = self.receiver.acks(ACK_LIST);
        let expedited = self.expedited_in.ack();
        let expedited = expedited
            .as_ref()
            .map(|ack| Body::Ack { is_expedited: true, ack: ack.in_header() }.size());
        let all = acks.iter().map(|ack| ack.body().size()).chain(expedited);
        all.map(|len| addresses + len).sum()
    }

    /// Octets on the air of the data to be sent with acknowledgement; `header` is the overhead of a
    /// data frame.
    pub(super) fn data_len(&self, header: usize, segment: usize) -> usize {
        if !self.may_send() {
            return 0;
        }
        let backlog = self.sender.backlog();
        let pieces = |octets: usize| octets.div_ceil(segment).max(1);
        let (mut frames, mut octets) = (0, 0);
        if self.takes_new() && backlog.unsent_c_pdus > 0 {
            frames += pieces(backlog.unsent) + backlog.unsent_c_pdus - 1;
            octets += backlog.unsent;
        }
        if self.begins_new() {
            for request in self.waiting.iter_if(false) {
                let len = Cpdu::HEADER + request.s_pdu.len();
                frames += pieces(len);
                octets += len;
            }
        }
        let fresh = octets + frames * header;
        let most = backlog.window * (segment + header);
        let expedited = match self.waiting.first_if(true) {
            _ if self.expedited.is_due() => segment + header,
            Some(request) if !self.expedited.is_unanswered() && self.begins_new() => {
                let len = Cpdu::HEADER + request.s_pdu.len();
                len + pieces(len) * header
            }
            Some(_) | None => 0,
        };
        backlog.due_octets + backlog.due * header + fresh.min(most) + expedited
    }
}

/// How often a link to a lost station is requested: noise or a collision may destroy one request.
const CALLS_OF_LOST: u32 = 2;
/// The step of reset numbers between successive links, so that a late reset is recognised as old.
const RESET_STEP: u8 = 37;
/// The longest list of an acknowledgement in octets: in short frames bit errors are rare.
pub(super) const ACK_LIST: usize = 128;

/// The C_PDU of a request.
fn c_pdu(request: &Request) -> arq::ArqPdu {
    let mut octets = Vec::with_capacity(Cpdu::HEADER + request.s_pdu.len());
    Cpdu::Data(&request.s_pdu).emit(&mut octets);
    let in_order = matches!(request.mode, Mode::Arq { in_order: true });
    let Request { id, priority, expires, is_retried, .. } = *request;
    arq::ArqPdu { id, octets, in_order, priority, expires, is_retried }
}

fn window([short, long]: [u32; 2], numbers: Numbers) -> u32 {
    match numbers {
        Numbers::Long => long,
        Numbers::Short => short,
    }
}

//! Fuzzes frames of STANAG 5066: octets are no frame, or a frame that is emitted exactly as read. Both ends of a link
//! survive any frame, and report every loss and every duplicate.

use std::collections::BTreeMap;

use base::rng::Rng;
use base::time::Time;
use hf::s5066::Address;
use hf::s5066::dts::arq::{ArqPdu, Receiver, Repeat, Sender};
use hf::s5066::dts::reset;
use hf::s5066::dts::scan::{Heard, Scanner};
use hf::s5066::dts::wire::{Body, Eow, Frame, Header, MAX_FRAME, Numbers};
use hf::s5066::service::{Outcome, RequestId};

/// Parses, emits and compares; a scanner finds the same frame.
pub fn frame(input: &[u8]) {
    let parsed = Frame::read(input);
    assert_eq!(parsed.map(|(_, len)| len), Frame::measure(input));
    if let Ok((frame, len)) = parsed {
        assert!(len <= input.len() && len <= MAX_FRAME);
        let octets = emitted(&frame);
        assert_eq!(octets.len(), frame.size());
        assert_eq!(Frame::read(&octets), Ok((frame, octets.len())));

        let mut scanner = Scanner::new();
        let mut rest = input;
        let heard = scanner.poll(&mut rest);
        assert!(matches!(heard, Some(Heard::Frame { frame: same, .. }) if same == frame));
    }

    let chunk = input.first().map_or(1, |&octet| usize::from(octet % 32) + 1);
    assert_eq!(heard(input, input.len().max(1)), heard(input, chunk));
}

/// The frames found by a scanner that receives the stream in chunks.
fn heard(stream: &[u8], chunk: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut scanner = Scanner::new();
    let mut note = |heard: Heard<'_>| {
        if let Heard::Frame { frame, octets, .. } = heard {
            assert!(Frame::read_end(octets).is_ok_and(|(same, _)| same == frame));
        }
        all.push(format!("{heard:?}"));
    };
    for mut octets in stream.chunks(chunk) {
        while let Some(heard) = scanner.poll(&mut octets) {
            note(heard);
        }
        assert!(octets.is_empty());
    }
    while let Some(heard) = scanner.flush() {
        note(heard);
    }
    all
}

/// The input chooses the data to send, the fate of each frame, and frames from nowhere.
pub fn arq(input: &[u8]) {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let numbers = if first & 1 == 0 { Numbers::Short } else { Numbers::Long };
    let window = u32::from(first >> 1) + 1;
    let mut link = Link {
        numbers,
        sender: Sender::new(numbers, window),
        receiver: Receiver::new(numbers),
        resets: reset::Resets::new(first, 3),
        rng: Rng::stream(1, "segments"),
        turn: 0,
        // Frames from nowhere may pass for the peer's.
        is_forged: false,
        outcomes: BTreeMap::new(),
        delivered: BTreeMap::new(),
    };
    let mut pushed = 0;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        match action & 7 {
            0 | 1 => {
                let mut octets = u64::to_be_bytes(pushed).to_vec();
                octets.resize(8 + usize::from(value) * 4, value);
                let expires = (value & 3 == 0).then(|| Time::from_nanos(link.turn + 5));
                let in_order = action & 8 != 0;
                let is_retried = in_order && pushed % 3 == 0;
                let c_pdu = ArqPdu {
                    id: RequestId(pushed),
                    octets,
                    in_order,
                    priority: 0,
                    expires,
                    is_retried,
                };
                pushed += u64::from(link.sender.push(c_pdu).is_ok());
            }
            2..=4 => link.exchange(action >> 3, value),
            5 => link.reset(),
            6 => link
                .sender
                .repeat_unanswered(link.turn, [Repeat::All, Repeat::Probe][usize::from(value & 1)]),
            _ => {
                let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                link.forge(octets);
            }
        }
        link.settle();
        let backlog = link.sender.backlog();
        assert!(backlog.due + backlog.unanswered <= window as usize, "{backlog:?}");
        assert!(link.receiver.held() <= 65_536 * 1023);
    }
    link.reset();
    link.settle();
    if !link.is_forged {
        for (id, outcome) in link.outcomes {
            let times = link.delivered.get(&id).copied().unwrap_or_default();
            assert!(times <= 1, "{id} came twice");
            assert!(outcome != Outcome::Done || times == 1, "{id} did not come");
        }
    }
}

struct Link {
    numbers: Numbers,
    sender: Sender,
    receiver: Receiver,
    resets: reset::Resets,
    rng: Rng,
    turn: u64,
    is_forged: bool,
    outcomes: BTreeMap<u64, Outcome>,
    delivered: BTreeMap<u64, u32>,
}

impl Link {
    /// A transmission of up to one frame per bit of `fate`, then the answer.
    fn exchange(&mut self, lost: u8, fate: u8) {
        self.turn += 1;
        let now = Time::from_nanos(self.turn);
        let mut is_ok = true;
        for frame in 0..8 {
            let segment = 1 + usize::try_from(self.rng.below(300)).unwrap_or_default();
            let outgoing = self.sender.poll(now, self.turn, segment, 1023);
            let Some(outgoing) = outgoing else { break };
            if fate >> frame & 1 == 1 {
                let (numbers, ack) = (self.numbers, None);
                let body = Body::Data { numbers, data: outgoing.data, ack };
                let octets = emitted(&Frame { header: HEADER, body });
                is_ok &= handle(&mut self.receiver, &mut self.sender, &octets, 0);
            }
        }
        let acks = self.receiver.acks(16);
        self.receiver.handle_ack_sent();
        for (index, ack) in (0..).zip(&acks) {
            if lost >> (index % 5) & 1 == 0 {
                let octets = emitted(&Frame { header: HEADER, body: ack.body() });
                is_ok &= handle(&mut self.receiver, &mut self.sender, &octets, self.turn);
            }
        }
        if !is_ok {
            self.reset();
        }
    }

    /// Octets from nowhere; most often no valid frame.
    fn forge(&mut self, octets: &[u8]) {
        if let Ok((Frame { body: Body::Reset { reset, .. }, .. }, _)) = Frame::read(octets) {
            let _ = self.resets.handle_reset(&reset);
            while self.resets.poll().is_some() {}
        }
        if Frame::read(octets).is_ok() {
            self.is_forged = true;
        }
        if !handle(&mut self.receiver, &mut self.sender, octets, self.turn) {
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.sender.reset();
        self.receiver.reset();
    }

    fn settle(&mut self) {
        while let Some((id, outcome)) = self.sender.poll_outcome() {
            assert_eq!(self.outcomes.insert(id.0, outcome), None, "one outcome each");
        }
        while let Some(c_pdu) = self.receiver.poll_delivered() {
            if let Some(id) = c_pdu.octets.first_chunk() {
                *self.delivered.entry(u64::from_be_bytes(*id)).or_default() += 1;
            }
        }
    }
}

/// Whether both ends are still in step.
fn handle(receiver: &mut Receiver, sender: &mut Sender, octets: &[u8], turn: u64) -> bool {
    let Ok((frame, _)) = Frame::read(octets) else { return true };
    match frame.body {
        Body::Data { numbers, data, ack } => {
            let is_ok = receiver.handle_data(numbers, &data).is_ok();
            let acked = ack.map(|ack| sender.handle_ack(&ack.report(numbers), turn));
            is_ok && acked.is_none_or(|acked| acked.is_ok())
        }
        Body::Ack { ack, .. } => sender.handle_ack(&ack.report(Numbers::Short), turn).is_ok(),
        Body::LongAck(ack) => sender.handle_ack(&ack.report(), turn).is_ok(),
        _ => true,
    }
}

const HEADER: Header = Header {
    eow: Eow::None,
    eot: 0,
    to: Address::node(1),
    from: Address::node(2),
    address_size: 1,
};

fn emitted(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    frame.emit(&mut octets);
    octets
}

//! PDUs as octets.

use super::{
    Addresses, Credit, Data, DatagramName, First, GUARDED, Hello, KIND_DATA, KIND_DATAGRAM,
    KIND_HELLO, KIND_OPEN, KIND_RECEIPT, KIND_RELIABLE, KIND_RESET, KIND_STATE, Name, Open, Pdu,
    RESPONDER, State,
};

impl Pdu<'_> {
    /// Appends the octets.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Datagram { name, addresses, is_coded, data } => {
                let has_addresses = *addresses != Addresses::default();
                let kind = if name.is_some() { KIND_RELIABLE } else { KIND_DATAGRAM };
                head(out, kind, [has_addresses, *is_coded, false]);
                if let Some(DatagramName { epoch, id }) = name {
                    put(out, *epoch);
                    put(out, *id);
                }
                if has_addresses {
                    out.extend_from_slice(&[addresses.to, addresses.from]);
                }
                out.extend_from_slice(data);
            }
            Self::Receipt { epoch, ids } => {
                head(out, KIND_RECEIPT, [false; 3]);
                put(out, *epoch);
                out.extend_from_slice(ids.0.as_flattened());
            }
            Self::Open(open) => open.emit(out),
            Self::Data(Data { stream, part, credit }) => {
                head(out, KIND_DATA, [credit.is_some(), part.is_coded, part.is_last]);
                put_name(out, *stream);
                put(out, part.number);
                put_credit(out, *credit);
                out.extend_from_slice(part.data);
            }
            Self::State(state) => {
                let State { is_question, is_answer, has_heard, .. } = *state;
                head(out, KIND_STATE, [is_question, is_answer, has_heard]);
                put(out, state.epoch);
                put_name(out, state.stream);
                put_credit(out, Some(state.credit));
                out.extend_from_slice(state.ranges.0.as_flattened());
            }
            Self::Reset { stream, reason } => {
                head(out, KIND_RESET, [false; 3]);
                put_name(out, *stream);
                out.push(reason.0);
            }
            Self::Hello(Hello { is_question, epoch, uptime, accepts }) => {
                head(out, KIND_HELLO, [*is_question, false, false]);
                put(out, *epoch);
                out.extend_from_slice(&uptime.to_be_bytes());
                out.push(accepts & !GUARDED);
            }
        }
    }
}

impl Open<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        let has_addresses = !self.stream.is_responder && self.addresses != Addresses::default();
        let has_more = has_addresses || self.credit.is_some();
        head(out, KIND_OPEN, [has_more, self.part.is_coded, self.part.is_last]);
        put(out, self.epoch);
        put_name(out, self.stream);
        put(out, self.part.number);
        if let Some(First { accepts, guard }) = self.first {
            out.push(accepts & !GUARDED | if guard.is_some() { GUARDED } else { 0 });
            if let Some(guard) = guard {
                put(out, guard);
            }
        }
        if has_addresses {
            out.extend_from_slice(&[self.addresses.to, self.addresses.from]);
        }
        put_credit(out, self.credit);
        out.extend_from_slice(self.part.data);
    }
}

fn head(out: &mut Vec<u8>, kind: u8, flags: [bool; 3]) {
    let [high, middle, low] = flags.map(u8::from);
    out.push(kind << 3 | high << 2 | middle << 1 | low);
}

fn put(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, name: Name) {
    let responder = if name.is_responder { RESPONDER } else { 0 };
    put(out, name.number & !RESPONDER | responder);
}

fn put_credit(out: &mut Vec<u8>, credit: Option<Credit>) {
    if let Some(Credit { next, limit }) = credit {
        put(out, next);
        put(out, limit);
    }
}

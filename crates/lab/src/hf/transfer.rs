//! Runs of a transfer, and their comparison with a published one.

use std::time::Duration;

use base::quantity::Span;
use hf::s5066::sis::Mode;
use sim::hf::Channel;

use super::bulk::Bulk;
use super::link::{Carrier, Link, Transfer};
use super::radio;
use super::{draws_of_channel, draws_of_waveform};
use crate::prelude::*;

/// The goodput of a transfer as a share of the speed.
pub const UTILISATION: Metric = "utilisation";
/// The time until the connection was established.
pub const CONNECT: Metric = "connect";
/// The time until all data was delivered.
pub const TOTAL: Metric = "total";
/// The time until the confirmation of all data was back.
pub const CONFIRMED: Metric = "confirmed";
/// The time from the confirmation, when the sender closes, until both ends had closed.
pub const CLOSE: Metric = "close";
/// The time of the last octet from the sender's TCP to its delivery.
pub const LATENCY: Metric = "latency";

/// The times, in the order in which the white paper has them.
pub const TIMES: [Metric; 3] = [CONNECT, TOTAL, LATENCY];

/// The sizes of the sender's socket buffer that are tried; the last is the default limit of Linux.
pub const BUFFERS: [usize; 5] = [32 << 10, 64 << 10, 128 << 10, 256 << 10, 4 << 20];
/// The size that all figures are judged with. Among those that miss no figure of the table for ARQ with
/// the fastest radio it has the highest utilisation; the other tables were not considered.
pub const BUFFER: usize = 64 << 10;
/// The most runs with errors and a slow radio.
const KEYED_RUNS: u32 = 20;
/// The time after which a transfer counts as failed.
pub const LIMIT: Duration = Duration::from_secs(8 * 3_600);

pub const BER: &str = "bit error rate";
/// The place of a link without errors on a logarithmic axis.
const NO_ERRORS: f64 = 1e-7;

/// A row of a published table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub speed: u32,
    pub kilobytes: u32,
    /// `None` where the transfer failed.
    pub published: Option<Published>,
}

/// The published figures of a transfer; times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    pub utilisation: f64,
    pub connect: f64,
    pub total: f64,
    pub latency: f64,
}

impl Published {
    /// The published figure for a metric.
    pub fn of(self, metric: Metric) -> f64 {
        match metric {
            CONNECT => self.connect,
            TOTAL => self.total,
            LATENCY => self.latency,
            _ => self.utilisation,
        }
    }
}

impl Row {
    /// The transfer over a clear link.
    pub fn link(self, mode: Mode, key_up: Duration, send_buffer: usize) -> Link {
        Link {
            waveform: radio::waveform(self.speed),
            channel: Channel::Clear,
            key_up,
            carrier: Carrier::IpClient,
            mode,
            is_slotted: is_slotted(mode),
            octets: u64::from(self.kilobytes) * 1_000,
            send_buffer,
            limit: LIMIT,
        }
    }

    /// The size and the speed of the transfer as text.
    pub fn place(self) -> String {
        format!("{} kB at {} bit/s", self.kilobytes, self.speed)
    }
}

/// A link with the fastest radios and HF-PEPs, clear and with nothing to transfer.
pub fn idle(speed: u32, is_compressed: bool) -> Link {
    let row = Row { speed, kilobytes: 0, published: None };
    over_pep(row.link(Mode::Arq { in_order: true }, radio::FASTEST, BUFFER), is_compressed)
}

/// A transfer over HF-PEP that is otherwise the same.
pub fn over_pep(link: Link, is_compressed: bool) -> Link {
    let first_data = hf::hfpep::Config::default().first_data;
    Link { carrier: Carrier::HfPep { first_data, is_compressed }, ..link }
}

/// A transfer with bit errors.
pub fn errored(ber: f64, mode: Mode, octets: u64, key_up: Duration) -> Link {
    Link {
        waveform: radio::waveform(9_600),
        channel: if ber > 0.0 { Channel::Ber(ber) } else { Channel::Clear },
        key_up,
        carrier: Carrier::IpClient,
        mode,
        is_slotted: is_slotted(mode),
        octets,
        send_buffer: BUFFER,
        limit: LIMIT,
    }
}

/// The white paper shares the frequency in slots where nothing is acknowledged.
fn is_slotted(mode: Mode) -> bool {
    match mode {
        Mode::Arq { .. } => false,
        Mode::NonArq { .. } => true,
    }
}

impl Place for Link {
    fn cell(&self) -> Cell {
        let link = *self;
        let most = match link.channel {
            Channel::Clear => super::ALIKE,
            _ if link.key_up == radio::FASTEST => u32::MAX,
            _ => KEYED_RUNS,
        };
        let work = move |seed| outcome(&link, &link.run(seed));
        Cell::new(name(self), draws(self), work).at_most(most)
    }
}

fn name(link: &Link) -> Name {
    let Link { waveform, channel, key_up, is_slotted, octets, send_buffer, limit, .. } = *link;
    let name = Name::of("transfer").with("rate", waveform).with("channel", channel);
    let name = name.with("key-up", Span(key_up)).with("octets", octets);
    let name = match link.carrier {
        Carrier::HfPep { first_data, is_compressed } => {
            let name = name.word("hf-pep").when(is_compressed, "compressed");
            name.unless(
                "first-data",
                Span(first_data),
                Span(hf::hfpep::Config::default().first_data),
            )
        }
        Carrier::IpClient => name.word("ip-client"),
    };
    let name = match link.mode {
        Mode::Arq { in_order } => name.with("arq", if in_order { "in-order" } else { "any-order" }),
        Mode::NonArq { repeats, .. } => name.with("non-arq", repeats),
    };
    let name = name.when(is_slotted, "slotted").with("send-buffer", buffer(send_buffer));
    name.unless("limit", Span(limit), Span(LIMIT))
}

/// The label of the cell: see [`Cell::new`].
fn draws(link: &Link) -> String {
    let Link { waveform, channel, key_up, is_slotted, octets, send_buffer, limit, .. } = link;
    let transport = match link.mode {
        Mode::Arq { in_order } => format!("Arq {{ in_order: {in_order} }}"),
        Mode::NonArq { repeats, .. } => format!("NonArq {{ repeats: {repeats} }}"),
    };
    let carrier = match link.carrier {
        Carrier::HfPep { first_data, is_compressed } => {
            let compressed = if is_compressed { " compressed" } else { "" };
            format!("carrier: HfPep {{ {first_data:?}{compressed} }}, ")
        }
        Carrier::IpClient => String::new(),
    };
    let [waveform, channel] = [draws_of_waveform(*waveform), draws_of_channel(*channel)];
    format!(
        "transfer Link {{ waveform: {waveform}, channel: {channel}, key_up: {key_up:?}, \
         {carrier}transport: {transport}, is_slotted: {is_slotted}, octets: {octets}, \
         send_buffer: {send_buffer}, limit: {limit:?} }}"
    )
}

fn outcome(link: &Link, transfer: &Transfer) -> Outcome {
    let limit = link.limit.as_secs_f64();
    let time = |at| Observation::or_later(at, limit);
    let seconds = link.octets as f64 * 8.0 / f64::from(link.waveform.bits_per_s());
    let close = transfer.closed_s.zip(transfer.total_s).map(|(end, from)| end - from);
    let mut outcome = vec![
        exact(UTILISATION, transfer.delivered_s.map_or(0.0, |it| seconds / it)),
        (CONNECT, time(transfer.connect_s)),
        (TOTAL, time(transfer.delivered_s)),
        (CONFIRMED, time(transfer.total_s)),
        (LATENCY, time(transfer.latency_s)),
    ];
    if let Carrier::HfPep { .. } = link.carrier {
        outcome.push((CLOSE, time(close)));
    }
    outcome
}

/// The curves of points over the bit error rate.
pub fn over_errors(points: &[Point], name: &str, title: &str, subtitle: &str) -> Figure {
    let drawn: Vec<Point> =
        points.iter().map(|it| Point { x: it.x.max(NO_ERRORS), ..it.clone() }).collect();
    Figure::of(&drawn, name, title)
        .under(subtitle)
        .over(Axis::log("Bit error rate after decoding", ""))
        .up(Axis::linear("Utilisation", ""))
}

/// The limit of an endless transfer: raw STANAG 5066 less the headers of TCP and IP, or of SLEP.
pub fn limit(link: &Link) -> f64 {
    let bulk = Bulk {
        waveform: link.waveform,
        channel: link.channel,
        key_up: link.key_up,
        skipped: 0,
        measured: 0,
    };
    let (packet, headers) = match link.carrier {
        Carrier::HfPep { .. } => (2_048.0, 5.0),
        Carrier::IpClient => (1_500.0, 52.0),
    };
    bulk.limit() * (packet - headers) / packet
}

/// A share with as many digits as the published ones, and its interval if that is not negligible.
pub fn share(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(half) if half >= 0.0005 => format!("{:.3} ± {half:.3}", estimate.mean),
        Some(_) | None => format!("{:.3}", estimate.mean),
    }
}

/// A time, with its interval if that is not negligible.
pub fn seconds(estimate: &Estimate) -> String {
    match estimate.ci95 {
        _ if estimate.is_lower_bound() => mean(estimate),
        Some(half) if half >= 0.05 => format!("{} ± {}", number(estimate.mean), number(half)),
        Some(_) | None => number(estimate.mean),
    }
}

/// Formats the size of a buffer.
pub fn buffer(octets: usize) -> String {
    match octets >> 20 {
        0 => format!("{} KB", octets >> 10),
        megabytes => format!("{megabytes} MB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_stay_what_they_were() {
        let draws = |mode| draws(&errored(1e-4, mode, 102_400, radio::FASTEST));
        let told = |transport: &str, is_slotted: bool| {
            format!(
                "transfer Link {{ waveform: Waveform {{ family: Stanag4539, bits_per_s: 9600, \
                 interleaver: Short }}, channel: Ber(0.0001), key_up: 200ms, \
                 transport: {transport}, is_slotted: {is_slotted}, octets: 102400, \
                 send_buffer: 65536, limit: 28800s }}"
            )
        };

        assert_eq!(draws(Mode::Arq { in_order: true }), told("Arq { in_order: true }", false));
        assert_eq!(draws(Mode::ONCE), told("NonArq { repeats: 0 }", true));
    }
}

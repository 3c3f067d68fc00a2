//! The plan of the benchmark `path`: its measurements and their goals.

use super::network::{Carrier, LONG, NEAR, Wire};

/// The losses of the link, in percent.
const LOSSES: [f64; 6] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0];
/// The loss for lone packets, in percent.
const LONE_LOSS: f64 = 10.0;
/// The goodput required in the tunnel, as a part of plain bbr's goodput: with bbr inside, which stops for each of its
/// measurements, and with any other congestion control.
const BBR_INSIDE: f64 = 0.98;
const OTHER_INSIDE: f64 = 1.0;

/// Octets of payload of a TCP segment, with timestamps.
const PLAIN_SEGMENT: f64 = 1_448.0;
const TUNNEL_SEGMENT: f64 = 1_386.0;
/// Octets of packets with full segments, in the tunnel with compressed headers.
const PLAIN_PACKET: f64 = 1_500.0;
const TUNNEL_PACKET: f64 = 1_459.0;
/// Octets of framing around a packet.
const FRAMING: f64 = 14.0;

/// The pattern of losses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pattern {
    /// Each on its own.
    Single,
    /// Five in a row in the mean.
    Bursts,
    /// All within 20 ms.
    Fades,
}

/// The traffic of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Load {
    /// A download with this congestion control.
    Download(&'static str),
    /// Requests and responses.
    Talk,
    /// Requests and responses beside a download.
    Both,
    /// Lone packets, each long after the one before.
    Lone,
    /// Pings beside the tunnel while a TCP connection fills it each way.
    BothWays,
}

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub carrier: Carrier,
    pub pattern: Pattern,
    /// The share lost in each direction, in percent.
    pub loss: f64,
    pub load: Load,
    pub seconds: u32,
}

/// The extent of the benchmark.
#[derive(Clone, Debug)]
pub struct Extent {
    /// In percent.
    pub losses: Vec<f64>,
    /// Of one download.
    pub seconds: u32,
    pub is_quick: bool,
}

impl Pattern {
    /// The loss in the form of `trackway link`.
    pub fn loss(self, percent: f64) -> String {
        match self {
            _ if percent == 0.0 => "none".to_owned(),
            Self::Single => format!("{percent}%"),
            Self::Bursts => format!("gilbert-elliott(mean={percent}%,burst=5)"),
            Self::Fades => format!("fades(mean={percent}%,length=20ms)"),
        }
    }
}

impl Cell {
    /// The name of the turn.
    pub fn name(&self) -> String {
        let Self { carrier, pattern, loss, load, .. } = self;
        let carrier = match carrier {
            Carrier::Plain => "plain",
            Carrier::Tunnel => "ours",
        };
        let load = match load {
            Load::Download(tcp) => tcp,
            Load::Talk => "requests",
            Load::Both => "requests beside cubic",
            Load::Lone => "lone packets",
            Load::BothWays => "both ways",
        };
        let pattern = match pattern {
            Pattern::Single => "",
            Pattern::Bursts => ", bursts",
            Pattern::Fades => ", fades",
        };
        format!("{carrier} {load} {loss} %{pattern}")
    }

    /// The link in the middle.
    pub fn wire(&self) -> Wire {
        if self.load == Load::BothWays { NEAR } else { LONG }
    }

    /// The required goodput of a download, as a part of plain bbr's goodput at the same loss.
    pub fn asked_share(&self) -> Option<f64> {
        let is_asked = self.carrier == Carrier::Tunnel && self.pattern == Pattern::Single;
        match self.load {
            Load::Download("bbr") if is_asked => Some(BBR_INSIDE),
            Load::Download(_) if is_asked => Some(OTHER_INSIDE),
            _ => None,
        }
    }

    /// The highest goodput of a TCP stream of full segments, in bit/s.
    pub fn goodput_limit(&self) -> f64 {
        f64::from(self.wire().rate) * self.arriving() * self.segment() / (self.packet() + FRAMING)
    }

    /// The most octets that may be offered to the link for each delivered octet.
    pub fn asked_offered(&self) -> Option<f64> {
        let is_asked = self.carrier == Carrier::Tunnel && self.pattern == Pattern::Single;
        is_asked.then(|| 1.08 / self.arriving() + 0.05)
    }

    /// The fewest octets offered for each delivered octet: full segments, each sent until it arrives.
    pub fn offered_limit(&self) -> f64 {
        self.packet() / self.segment() / self.arriving()
    }

    fn arriving(&self) -> f64 {
        1.0 - self.loss / 100.0
    }

    fn packet(&self) -> f64 {
        match self.carrier {
            Carrier::Plain => PLAIN_PACKET,
            Carrier::Tunnel => TUNNEL_PACKET,
        }
    }

    fn segment(&self) -> f64 {
        match self.carrier {
            Carrier::Plain => PLAIN_SEGMENT,
            Carrier::Tunnel => TUNNEL_SEGMENT,
        }
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self { losses: LOSSES.to_vec(), seconds: 15, is_quick: false }
    }
}

impl Extent {
    /// A shorter plan, of less than two minutes.
    pub fn quick() -> Self {
        Self { losses: vec![0.0, 2.0, 20.0], seconds: 8, is_quick: true }
    }

    /// All turns, the longest first among similar turns.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut add = |carrier, pattern, load, losses: &[f64], seconds| {
            cells.extend(losses.iter().map(|&loss| Cell { carrier, pattern, loss, load, seconds }));
        };
        let (losses, seconds) = (&self.losses[..], self.seconds);
        let long = 2 * seconds;
        // One packet of a thousand may be late.
        let longest = if self.is_quick { 5 } else { 20 } * seconds;
        add(Carrier::Tunnel, Pattern::Single, Load::Lone, &[LONE_LOSS], longest);
        add(Carrier::Plain, Pattern::Single, Load::Talk, &[0.0], long);
        add(Carrier::Tunnel, Pattern::Single, Load::Talk, &[0.0, 20.0], long);
        add(Carrier::Tunnel, Pattern::Single, Load::Both, &[0.0, 2.0], long);
        add(Carrier::Plain, Pattern::Single, Load::BothWays, &[0.0], seconds);
        add(Carrier::Tunnel, Pattern::Single, Load::BothWays, &[0.0], seconds);
        let inside = if self.is_quick { &["cubic", "bbr"][..] } else { &["reno", "cubic", "bbr"] };
        for tcp in inside {
            add(Carrier::Tunnel, Pattern::Single, Load::Download(tcp), losses, seconds);
        }
        let lossy: Vec<f64> = losses.iter().copied().filter(|loss| *loss > 0.0).collect();
        for pattern in [Pattern::Bursts, Pattern::Fades] {
            add(Carrier::Tunnel, pattern, Load::Download("cubic"), &lossy, seconds);
        }
        for tcp in ["cubic", "bbr"] {
            add(Carrier::Plain, Pattern::Single, Load::Download(tcp), losses, seconds);
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_within_what_is_possible() {
        for cell in Extent::default().cells() {
            let offered = cell.asked_offered().unwrap_or(f64::INFINITY);
            assert!(offered > cell.offered_limit(), "{}", cell.name());
        }
    }

    #[test]
    fn every_loss_reads_as_the_link_takes_it() {
        for cell in Extent::default().cells() {
            let loss: sim::channel::Loss = cell.pattern.loss(cell.loss).parse().unwrap();

            assert!((loss.mean() - cell.loss / 100.0).abs() < 1e-12, "{}", cell.name());
        }
    }

    #[test]
    fn no_two_turns_have_the_same_name() {
        for extent in [Extent::default(), Extent::quick()] {
            let mut names: Vec<String> = extent.cells().iter().map(Cell::name).collect();
            let count = names.len();
            names.sort();
            names.dedup();

            assert_eq!(names.len(), count);
        }
    }
}

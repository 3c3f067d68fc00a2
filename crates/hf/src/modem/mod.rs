//! HF modems from the station's side: waveforms, and the interface to a modem.
//!
//! ```text
//!             Keying: Start, octets, End
//!  station  ────────────────────────────────▶  modem ~~~ radio ~~~
//!           ◀────────────────────────────────
//!             Event: Carrier, Octets, Sent
//! ```
//!
//! A modem asks for octets block by block and sends whole interleaver blocks. The simulated modem and external modems,
//! driven through [`lan`], share this interface.

pub mod lan;
mod waveform;

pub use waveform::{Family, Interleaver, NoSuchWaveform, NotAWaveform, NotAnInterleaver, Waveform};

/// Reports from a modem to its station.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A preamble was recognised: somebody transmits with this waveform.
    CarrierDetected {
        /// The waveform, when the preamble or the modem's setting tells it.
        waveform: Option<Waveform>,
    },
    /// What was received ended, by an end of message or because it faded.
    CarrierLost,
    /// Octets came out of the decoder.
    Received(Vec<u8>),
    /// All of a transmission has left, and the transmitter is off.
    Sent,
}

/// A station's commands and octets for its modem.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keying {
    /// Turn the transmitter on with this waveform, then ask for octets.
    Start(Waveform),
    /// Octets were appended to the buffer, no more than there was room for.
    Octets,
    /// The transmission ends with the octets given so far.
    End,
}

//! How a U_PDU is to be carried: the service type of a bind and the delivery mode of a request,
//! which are laid out alike in 12 bits (A.2.2.3, A.2.2.28.2).
//!
//! ```text
//!   11 10 9 8   7 6        5              4         3 2 1 0
//!  +----------+----------+--------------+----------+---------+
//!  | mode     | confirm  | as it arrives| extended | repeats |
//!  +----------+----------+--------------+----------+---------+
//! ```

use crate::s5066::service::Mode;

/// The 12 bits as they came; [`Delivery::service`] reads them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Delivery(u16);

/// How a U_PDU is to be carried.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Service {
    /// With or without ARQ.
    pub mode: Mode,
    /// Who confirms it; only with ARQ.
    pub confirmation: Confirmation,
    /// Whether it is tried again, while its time to live lasts, when the other node does not answer;
    /// only with ARQ. The standard has no use for the repeats of ARQ: to a node of ours any but 0 say this.
    pub is_retried: bool,
    /// Whether what has errors is delivered too; only without ARQ.
    pub takes_errors: bool,
}

/// Who confirms a U_PDU.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Confirmation {
    /// Nobody.
    None,
    /// The node of the other client.
    Node,
    /// The other client's end of the subnetwork.
    Client,
}

/// Why a delivery mode names no service.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotDeliverable {
    /// Only ARQ confirms.
    #[error("confirmation without ARQ")]
    ConfirmedNonArq,
    /// The default mode, which refers to the mode given at the bind.
    #[error("the default mode, which a bind must not ask for")]
    Default,
    /// More fields would follow, which no edition defines.
    #[error("the extended field is set")]
    Extended,
    /// The standard does not define this confirmation.
    #[error("undefined confirmation")]
    UndefinedConfirmation,
    /// The standard does not define this mode.
    #[error("undefined transmission mode {0}")]
    UndefinedMode(u8),
}

const AS_IT_ARRIVES: u16 = 0x020;
const EXTENDED: u16 = 0x010;

impl Delivery {
    /// The service that the client is bound with.
    pub const DEFAULT: Self = Self(0);

    /// The 12 bits; higher ones do not count.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x0fff)
    }

    /// The 12 bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether it is the service that the client is bound with; all other fields are then ignored.
    #[must_use]
    pub const fn is_default(self) -> bool {
        self.0 >> 8 == 0
    }

    /// What is asked for.
    ///
    /// # Errors
    /// For the default mode, or for a mode that does not exist.
    pub fn service(self) -> Result<Service, NotDeliverable> {
        let in_order = self.0 & AS_IT_ARRIVES == 0;
        let repeats = u8::try_from(self.0 & 0x0f).unwrap_or_default();
        let (mode, takes_errors) = match self.0 >> 8 {
            0 => return Err(NotDeliverable::Default),
            1 => (Mode::Arq { in_order }, false),
            mode @ (2 | 3) => (Mode::NonArq { in_order, repeats }, mode == 3),
            other => {
                let mode = u8::try_from(other).unwrap_or(u8::MAX);
                return Err(NotDeliverable::UndefinedMode(mode));
            }
        };
        if self.0 & EXTENDED != 0 {
            return Err(NotDeliverable::Extended);
        }
        let confirmation = match self.0 >> 6 & 3 {
            0 => Confirmation::None,
            1 => Confirmation::Node,
            2 => Confirmation::Client,
            _ => return Err(NotDeliverable::UndefinedConfirmation),
        };
        if !mode.is_arq() && confirmation != Confirmation::None {
            return Err(NotDeliverable::ConfirmedNonArq);
        }
        let is_retried = mode.is_arq() && repeats > 0;
        Ok(Service { mode, confirmation, is_retried, takes_errors })
    }
}

impl Service {
    /// Repeated until acknowledged, in order, confirmed by the node.
    pub const ARQ: Self = Self::of(Mode::Arq { in_order: true });
    /// Sent once.
    pub const NON_ARQ: Self = Self::of(Mode::ONCE);

    /// In this mode; with ARQ the node confirms.
    #[must_use]
    pub const fn of(mode: Mode) -> Self {
        let confirmation = if mode.is_arq() { Confirmation::Node } else { Confirmation::None };
        Self { mode, confirmation, is_retried: false, takes_errors: false }
    }
}

impl From<Service> for Delivery {
    fn from(service: Service) -> Self {
        let (mode, in_order, repeats) = match service.mode {
            Mode::Arq { in_order } => (1, in_order, u8::from(service.is_retried)),
            Mode::NonArq { in_order, repeats } => {
                (2 + u16::from(service.takes_errors), in_order, repeats & 0x0f)
            }
        };
        let confirmation = match service.confirmation {
            Confirmation::None => 0,
            Confirmation::Node => 1,
            Confirmation::Client => 2,
        };
        let order = if in_order { 0 } else { AS_IT_ARRIVES };
        Self(mode << 8 | confirmation << 6 | order | u16::from(repeats))
    }
}

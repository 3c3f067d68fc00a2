//! How a U_PDU is to be carried: the service type of a bind and the delivery mode of a request,
//! which are laid out alike in 12 bits (A.2.2.3, A.2.2.28.2).
//!
//! ```text
//!   11 10 9 8   7 6        5              4         3 2 1 0
//!  +----------+----------+--------------+----------+---------+
//!  | mode     | confirm  | as it arrives| extended | repeats |
//!  +----------+----------+--------------+----------+---------+
//! ```

/// The 12 bits as they came; [`Delivery::service`] reads them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Delivery(u16);

/// How a U_PDU is to be carried.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Service {
    /// With which transmission mode.
    pub transmission: Transmission,
    /// Who confirms it; only with ARQ.
    pub confirmation: Confirmation,
    /// Whether it waits for those sent before it.
    pub in_order: bool,
    /// Without ARQ: times it is sent again, 0 to 15. With ARQ the standard has no use for it; to a node
    /// of ours any but 0 says that it is tried again, while its time to live lasts, when the other node
    /// does not answer.
    pub repeats: u8,
}

/// With or without acknowledgement.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Transmission {
    /// Repeated until acknowledged.
    Arq,
    /// Sent a given number of times.
    NonArq,
    /// Sent a given number of times, and delivered with errors too.
    NonArqWithErrors,
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
    /// It is the one that the client is bound with.
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
    /// When that is the default, or nothing that there is.
    pub fn service(self) -> Result<Service, NotDeliverable> {
        let transmission = match self.0 >> 8 {
            0 => return Err(NotDeliverable::Default),
            1 => Transmission::Arq,
            2 => Transmission::NonArq,
            3 => Transmission::NonArqWithErrors,
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
        let is_arq = transmission == Transmission::Arq;
        if !is_arq && confirmation != Confirmation::None {
            return Err(NotDeliverable::ConfirmedNonArq);
        }
        let repeats = u8::try_from(self.0 & 0x0f).unwrap_or_default();
        Ok(Service { transmission, confirmation, in_order: self.0 & AS_IT_ARRIVES == 0, repeats })
    }
}

impl Service {
    /// Repeated until acknowledged, in order, confirmed by the node.
    pub const ARQ: Self = Self {
        transmission: Transmission::Arq,
        confirmation: Confirmation::Node,
        in_order: true,
        repeats: 0,
    };
    /// Sent once.
    pub const NON_ARQ: Self = Self {
        transmission: Transmission::NonArq,
        confirmation: Confirmation::None,
        in_order: false,
        repeats: 0,
    };
}

impl Service {
    /// Whether it is tried again when the other node does not answer.
    #[must_use]
    pub fn is_retried(self) -> bool {
        self.transmission == Transmission::Arq && self.repeats > 0
    }
}

impl From<Service> for Delivery {
    fn from(service: Service) -> Self {
        let mode = match service.transmission {
            Transmission::Arq => 1,
            Transmission::NonArq => 2,
            Transmission::NonArqWithErrors => 3,
        };
        let confirmation = match service.confirmation {
            Confirmation::None => 0,
            Confirmation::Node => 1,
            Confirmation::Client => 2,
        };
        let order = if service.in_order { 0 } else { AS_IT_ARRIVES };
        Self(mode << 8 | confirmation << 6 | order | u16::from(service.repeats & 0x0f))
    }
}

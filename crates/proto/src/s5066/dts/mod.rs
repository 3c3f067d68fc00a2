//! The data transfer sublayer, Annex C: C_PDUs in frames over a bad channel.

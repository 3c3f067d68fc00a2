//! The channel access sublayer, Annex B: links between stations, and who may transmit when.

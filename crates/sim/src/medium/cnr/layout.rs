//! Headers of the intranet layer: their octets, and how much of a frame they leave to a packet.

/// Hops at most: the hop count of the intranet header has 4 bits.
pub const MOST_HOPS: u8 = 15;
/// Octets of information that a frame has room for.
pub const MOST_INFORMATION: u32 = 3_345;
/// What the information field has room for behind the longest intranet header.
pub const MOST_MTU: u64 =
    (MOST_INFORMATION - INTRANET_RELAYED - INTRANET_ENTRY * MOST_HOPS as u32) as u64;
/// Octets of the intranet header of a packet that no relay passes on: version and type, length, type of
/// service.
pub const INTRANET: u32 = 3;
/// Octets of the intranet header of a relayed packet: adds message id, hop count and originator.
const INTRANET_RELAYED: u32 = 6;
/// Octets for each relay and destination in that: status and address.
const INTRANET_ENTRY: u32 = 2;
/// Octets of a topology update before its entries: length and update id.
const UPDATE: u32 = 2;
/// Octets for each station in it: address, predecessor, status.
const UPDATE_ENTRY: u32 = 3;

/// Octets that stand before a packet in its frame when `hops` stations in a row send it.
pub fn intranet(hops: u8) -> u32 {
    if hops <= 1 { INTRANET } else { INTRANET_RELAYED + INTRANET_ENTRY * u32::from(hops) }
}

/// Octets of a topology update about so many stations.
pub fn update(stations: usize) -> u32 {
    let stations = u32::try_from(stations).unwrap_or(u32::MAX);
    INTRANET + UPDATE + UPDATE_ENTRY.saturating_mul(stations)
}

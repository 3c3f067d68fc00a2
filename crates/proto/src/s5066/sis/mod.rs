//! The subnetwork interface sublayer, Annex A: clients, and what they say to each other.

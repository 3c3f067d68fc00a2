//! MIL-STD-188-110D Appendix A: a modem behind TCP.

//! What a node knows of a neighbour, and of the link that leads there.

use std::collections::VecDeque;

use super::config::Config;
use super::hop::{Peer, PeerConfig};
use super::rtt::Estimator;
use super::wire::FlowId;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct PeerState {
    pub(super) config: PeerConfig,
    pub(super) rtt: Estimator,
    pub(super) loss: Loss,
    pub(super) next_flow: FlowId,
    /// Flows from the peer to which an acknowledgement is owed, oldest first.
    pub(super) owed: VecDeque<FlowId>,
    /// Whether one of them may wait no longer.
    pub(super) is_overdue: bool,
    /// The deadline in the node's timers for them.
    pub(super) ack_timer: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct LinkState {
    pub(super) peers: Vec<Peer>,
    /// Flows that may have something to send, in turn.
    pub(super) turns: VecDeque<(Peer, FlowId)>,
}

/// How much of what is sent to a peer is lost; recent transmissions count most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    lost: f64,
    sent: f64,
}

impl PeerState {
    pub(super) fn new(config: PeerConfig, parameters: &Config, first: FlowId) -> Self {
        Self {
            config,
            rtt: Estimator::new(parameters.rto, parameters.profile),
            loss: Loss::UNKNOWN,
            next_flow: first,
            owed: VecDeque::new(),
            is_overdue: false,
            ack_timer: None,
        }
    }
}

impl Loss {
    /// Before anything is known a link is taken to lose one in ten.
    const UNKNOWN: Self = Self { lost: 1.0, sent: 10.0 };
    /// How many transmissions the estimate remembers.
    const MEMORY: f64 = 128.0;

    pub(super) fn learn(&mut self, lost: u32, delivered: u32) {
        self.lost += f64::from(lost);
        self.sent += f64::from(lost) + f64::from(delivered);
        if self.sent > Self::MEMORY {
            self.lost /= 2.0;
            self.sent /= 2.0;
        }
    }

    /// 0 to 1.
    pub(super) fn rate(self) -> f64 {
        self.lost / self.sent
    }
}

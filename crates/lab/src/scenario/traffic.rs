//! The flows of a scenario: starts applications on its nodes and reports their results.

use std::net::{IpAddr, SocketAddr};

use base::time::Time;
use sim::AppId;
use sim::app::{echo, ping, stream, transfer};

use super::network::Built;
use super::plan::{Flow, Stream, Transfer};

impl Built<'_> {
    pub(crate) fn add_transfer(
        &mut self,
        transfer: &Transfer,
        port: u16,
        points: usize,
    ) -> anyhow::Result<[AppId; 2]> {
        let Transfer { flow, octets, tcp } = transfer;
        let destination = self.destination(flow)?;
        let others = self.plan().transfers.iter().map(|other| &other.flow);
        let from_port = flow.from_port.unwrap_or(port);
        let sink = transfer::SinkConfig {
            tcp: *tcp,
            from_port: shares_port(flow, others).then_some(from_port),
            ..transfer::SinkConfig::new(flow.port)
        };
        let sender = transfer::SenderConfig {
            port: from_port,
            octets: *octets,
            start: self.at(flow.start),
            tcp: *tcp,
            window_points: points,
            ..transfer::SenderConfig::new(destination, 0)
        };
        Ok([
            self.world.add_app(self.nodes[flow.from], transfer::Sender::new(sender)),
            self.world.add_app(self.nodes[flow.to], transfer::Sink::new(sink)),
        ])
    }

    pub(crate) fn add_stream(&mut self, stream: &Stream, port: u16) -> anyhow::Result<[AppId; 2]> {
        let Stream { flow, payload, interval, stop, count, dscp, is_answered } = stream;
        let sender = stream::SenderConfig {
            port: flow.from_port.unwrap_or(port),
            destination: self.destination(flow)?,
            payload: *payload,
            interval: *interval,
            start: self.at(flow.start),
            stop: stop.map(|stop| self.at(stop)),
            count: *count,
            dscp: *dscp,
        };
        let [from, to] = [flow.from, flow.to].map(|node| self.nodes[node]);
        let others = self.plan().streams.iter().map(|other| &other.flow);
        let only_from = shares_port(flow, others).then_some(sender.port);
        Ok(if *is_answered {
            let ping = self.world.add_app(from, ping::Ping::new(sender));
            let echo = echo::Echo::new(flow.port);
            let echo = match only_from {
                Some(port) => echo.only_from(port),
                None => echo,
            };
            [ping, self.world.add_app(to, echo)]
        } else {
            let sender = self.world.add_app(from, stream::Sender::new(sender));
            let sink = stream::Sink::new(flow.port);
            let sink = match only_from {
                Some(port) => sink.only_from(port),
                None => sink,
            };
            [sender, self.world.add_app(to, sink)]
        })
    }

    fn destination(&self, flow: &Flow) -> anyhow::Result<SocketAddr> {
        let wanted = |address: &IpAddr| address.is_ipv6() == flow.ipv6;
        let given = self.plan().nodes[flow.to].addresses.iter().copied();
        let own = self.world.addresses(self.nodes[flow.to]);
        let address = given.chain(own).find(wanted).ok_or_else(|| {
            let name = &self.plan().nodes[flow.to].name;
            anyhow::anyhow!("a flow goes to \"{name}\", which has no such address")
        })?;
        Ok(SocketAddr::new(address, flow.port))
    }

    /// Octets of applications that a sink has received.
    #[must_use]
    pub fn received(&self, sink: AppId) -> u64 {
        let octets = self.world.transfer_sink(sink).map(|it| it.octets);
        let datagrams = || self.world.app(sink).map(stream::Sink::stats).map(|it| it.octets);
        octets.or_else(datagrams).unwrap_or_default()
    }

    /// Whether the connection of every transfer has ended.
    #[must_use]
    pub fn transfers_are_over(&self) -> bool {
        self.transfers.iter().all(|[sender, _]| {
            self.world.transfer_sender(*sender).is_none_or(|stats| stats.ended.is_some())
        })
    }

    /// When the last octet of a transfer arrived, if all have.
    #[must_use]
    pub fn last_octet(&self, transfer: usize) -> Option<Time> {
        let [_, sink] = self.transfers[transfer];
        let octets = self.plan().transfers[transfer].octets?;
        self.world.transfer_sink(sink).filter(|received| received.octets >= octets)?.last
    }

    /// Datagrams that the sender of a stream has sent.
    #[must_use]
    pub fn sent(&self, sender: AppId) -> u64 {
        let answered = self.world.app(sender).map(ping::Ping::stats).map(|it| it.sent);
        let plain = || self.world.app(sender).map(stream::Sender::stats).map(|it| it.sent);
        answered.or_else(plain).unwrap_or_default()
    }
}

/// Whether several flows of a kind go to the port of `flow`. Each of them then recognises its packets by their
/// source.
fn shares_port<'a>(flow: &Flow, all: impl Iterator<Item = &'a Flow>) -> bool {
    all.filter(|other| (other.to, other.port) == (flow.to, flow.port)).count() > 1
}

//! Interfaces on a combat net.

mod picture;
mod record;
mod report;

use std::fs;

use anyhow::Context as _;
use base::time::Time;
use emulator::air::NetHub;
use picture::Picture;
use record::Record;
use report::Report;
use sim::capture::{Capture, LinkType};
use sim::cnr::StationId;

use super::session::Session;
use crate::animation;

/// Frames between two looks: more than a net carries in the time.
const BETWEEN_LOOKS: usize = 4_096;

/// Runs a session with interfaces on a combat net of the scenario.
pub fn run(session: &Session<'_>, net: usize) -> anyhow::Result<()> {
    let (args, planned) = (session.args(), &session.plan().nets[net]);
    let names = planned.stations.iter().map(|node| session.plan().nodes[*node].name.clone());
    let names: Vec<String> = names.collect();
    let motions = session.motions(planned.stations.iter().copied())?;
    let joined = session.joined().iter().map(|it| StationId(it.station));
    let hearing = planned.hearing.clone();
    let mut hub = NetHub::new(planned.config, hearing, motions, joined, session.seed());
    if let Some(folder) = &args.net.pcap {
        let path = folder.join(format!("net-{net}.pcapng"));
        let failed = || format!("writing {}", path.display());
        fs::create_dir_all(folder).with_context(failed)?;
        let mut capture = Capture::create(&path).with_context(failed)?;
        for name in &names {
            capture.add_interface(name, LinkType::Ip);
        }
        hub.capture(capture);
    }
    let mut picture = args.animate.is_wanted().then(|| Picture::new(&names));
    let mut record = Record::new(&args.net, &names)?;
    let is_watched = picture.is_some() || record.is_some();
    if is_watched {
        hub.watch(BETWEEN_LOOKS);
    }
    let mut look = |now: Time, hub: &mut NetHub| {
        let (seen, missed) = hub.take_seen();
        if let Some(picture) = &mut picture {
            picture.look(now, hub, &seen, missed);
        }
        if let Some(record) = &mut record {
            record.look(&seen);
        }
    };
    let carried = session.carry(&mut hub, is_watched, &mut look, line)?;

    look(carried.end, &mut hub);
    let title = animation::title(&args.scenario, session.seed());
    if let Some(picture) = picture {
        args.animate.write(picture.finish(carried.end, &hub, title.clone()))?;
    }
    if let Some(record) = record {
        record.finish(title)?;
    }
    hub.finish_capture().context("writing the capture")?;
    Report { session, names: &names, hub: &hub, carried }.print(args.json)?;
    Ok(())
}

fn line(hub: &NetHub) -> String {
    // The line says nothing of times.
    let total = hub.medium().total(Time::ZERO);
    format!(
        "{} transmissions, {} acknowledgements | {} received, {} given up | {} collisions",
        total.transmissions, total.acks, total.received, total.given_up, total.collisions,
    )
}

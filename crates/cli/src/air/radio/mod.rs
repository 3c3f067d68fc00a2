//! Interfaces on a radio channel.

mod picture;
mod report;

use base::time::Time;
use emulator::air::RadioHub;
use picture::Picture;
use report::Report;

use sim::QueueDiscipline;

use super::session::Session;
use crate::animation;
use crate::failure::misuse;

/// Runs a session with interfaces on a radio channel of the scenario.
pub fn run(session: &Session<'_>, radio: usize) -> anyhow::Result<()> {
    let mut hub = hub(session, radio)?;
    let mut picture = session.args().animate.is_wanted().then(|| Picture::new(&mut hub));
    let is_watched = picture.is_some();
    let look = |now: Time, hub: &mut RadioHub| {
        if let Some(picture) = &mut picture {
            picture.look(now, hub);
        }
    };
    let carried = session.carry(&mut hub, is_watched, look, line)?;

    if let Some(picture) = picture {
        let stations = &session.plan().radios[radio].stations;
        let off =
            session.joined().iter().map(|it| (it.node.as_str(), stations[it.station].off.spans()));
        let mut recording = picture.finish(carried.end, &mut hub, off);
        recording.title = animation::title(&session.args().scenario, session.seed());
        session.args().animate.write(recording)?;
    }
    Report { joined: session.joined(), hub: &hub, seed: session.seed(), carried }
        .print(session.args().json)?;
    Ok(())
}

/// The channel, with a station for each interface.
fn hub(session: &Session<'_>, radio: usize) -> anyhow::Result<RadioHub> {
    let radio = &session.plan().radios[radio];
    // The reader of scenarios lets no station be nowhere.
    let own = session.motions(session.joined().iter().map(|it| radio.stations[it.station].node))?;
    let mut hub = RadioHub::new(radio.config, own, radio.interface.queue_packets, session.seed());
    match radio.interface.queue_discipline {
        QueueDiscipline::DropTail => {}
        QueueDiscipline::RoutingFirst => hub.send_routing_first(),
        QueueDiscipline::Fair { .. } => {
            return Err(misuse(
                "an air's radios have no queue-discipline = \"fair\": take \"drop-tail\" or \"routing-first\"",
            ));
        }
    }
    for (index, joined) in session.joined().iter().enumerate() {
        let spans = radio.stations[joined.station].off.spans();
        hub.plan(spans.iter().flat_map(|it| [(it.start, index, false), (it.end, index, true)]));
    }
    Ok(hub)
}

fn line(hub: &RadioHub) -> String {
    let total = hub.medium().total();
    let given_up: u64 = hub.stats().map(|it| it.given_up).sum();
    format!(
        "{} frames on the air, {} to all | {} received, {given_up} given up | {} collisions",
        total.data, total.broadcasts, total.received, total.collisions,
    )
}

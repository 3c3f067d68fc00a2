//! Measures lone packets: requests over UDP and their answers, each alone on its way.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use emulator::namespace;

use crate::Sites;

/// A request's answer has come, or is given up, before the next request.
const PER_SECOND: u32 = 4;
/// Octets of payload: with IPv4 and UDP, packets of 64 octets.
const MESSAGE: usize = 36;
/// How long the last packet may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a receiver waits between checks for the end.
const TURN: Duration = Duration::from_millis(200);
const PORT: u16 = 7_008;

/// Sends requests for so many seconds; returns the one-way time of each request and each answer, in
/// milliseconds, the shortest first. A lost message has an infinite time.
///
/// # Errors
/// When a socket cannot be opened.
pub fn ask(sites: &Sites, seconds: u32) -> anyhow::Result<Vec<f64>> {
    let address: IpAddr = Sites::SERVER.parse().context("the server's address")?;
    let address = SocketAddr::from((address, PORT));
    let server = namespace::within(&sites.server, || UdpSocket::bind(address))?
        .context("cannot listen for requests")?;
    let client = namespace::within(&sites.client, || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(address)?;
        Ok::<_, io::Error>(socket)
    })?
    .context("cannot open a socket for requests")?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(TURN))?;
    }

    let clock = Instant::now();
    let requests = seconds * PER_SECOND;
    let sent_at = |number| clock + Duration::from_secs(1) * number / PER_SECOND;
    let end = sent_at(requests) + PATIENCE;
    thread::scope(|scope| {
        let answering = scope.spawn(|| receive(&server, clock, end, requests, true));
        let receiving = scope.spawn(|| receive(&client, clock, end, requests, false));
        for number in 0..requests {
            thread::sleep(sent_at(number).saturating_duration_since(Instant::now()));
            // A packet refused by the kernel counts as lost.
            let _ = client.send(&message(number, clock));
        }
        let [asked, answered] =
            [answering, receiving].map(|it| it.join().expect("a receiver does not panic"));
        // A lost request has no answer.
        let unasked = asked.iter().filter(|time| time.is_infinite()).count();
        let mut times = [asked, answered].concat();
        times.sort_by(f64::total_cmp);
        times.truncate(times.len() - unasked);
        Ok(times)
    })
}

/// Takes messages until the end; returns the time of each in milliseconds, by number.
fn receive(
    socket: &UdpSocket,
    clock: Instant,
    end: Instant,
    requests: u32,
    answers: bool,
) -> Vec<f64> {
    let mut times = vec![f64::INFINITY; requests as usize];
    let mut buffer = [0; MESSAGE];
    while Instant::now() < end && times.contains(&f64::INFINITY) {
        let Ok((MESSAGE, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some((number, sent)) = read(&buffer) else { continue };
        let Some(time) = times.get_mut(number as usize) else { continue };
        if answers && time.is_infinite() {
            let _ = socket.send_to(&message(number, clock), from);
        }
        let took = clock.elapsed().saturating_sub(sent);
        *time = time.min(took.as_secs_f64() * 1e3);
    }
    times
}

/// A message with its number and time of departure.
fn message(number: u32, clock: Instant) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    let sent = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    message[..4].copy_from_slice(&number.to_be_bytes());
    message[4..12].copy_from_slice(&sent.to_be_bytes());
    message
}

fn read(message: &[u8; MESSAGE]) -> Option<(u32, Duration)> {
    let (number, rest) = message.split_first_chunk()?;
    let (sent, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), Duration::from_nanos(u64::from_be_bytes(*sent))))
}

/// The share of times up to a limit, both in milliseconds.
#[must_use]
pub fn share_within(times: &[f64], limit: f64) -> f64 {
    let within = times.iter().filter(|time| **time <= limit).count();
    within as f64 / times.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_which_it_is_and_when_it_left() {
        let clock = Instant::now();

        let (number, sent) = read(&message(7, clock)).unwrap();

        assert_eq!(number, 7);
        assert!(sent <= clock.elapsed());
    }

    #[test]
    fn what_never_comes_is_not_within_any_time() {
        assert_eq!(share_within(&[50.0, 150.0, 151.0, f64::INFINITY], 150.0), 0.5);
        assert!(share_within(&[], 150.0).is_nan());
    }
}

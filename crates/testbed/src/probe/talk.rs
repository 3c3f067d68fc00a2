//! Measures how long small requests and responses over one TCP connection take.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use emulator::namespace;

use crate::Sites;

/// Octets of a request or response.
const MESSAGE: usize = 64;
/// Requests do not wait for responses.
const PER_SECOND: u32 = 10;
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(15);
const PORT: u16 = 7_007;

/// Sends requests for so many seconds; returns the time until each response, in milliseconds, the
/// shortest first. A missing response has an infinite time.
///
/// # Errors
/// When client and server are not connected.
pub fn talk(sites: &Sites, seconds: u32) -> anyhow::Result<Vec<f64>> {
    let address: IpAddr = Sites::SERVER.parse().context("the server's address")?;
    let address = SocketAddr::from((address, PORT));
    let listener = namespace::within(&sites.server, || TcpListener::bind(address))?
        .context("cannot listen for requests")?;
    listener.set_nonblocking(true)?;
    let requests = seconds * PER_SECOND;
    thread::scope(|scope| {
        let server = scope.spawn(|| answer(&listener));
        let asked = ask(&sites.client, address, requests);
        let answered = server.join().expect("the server does not panic");
        let times = asked?;
        answered.context("the server of requests")?;
        Ok(times)
    })
}

fn ask(client: &str, address: SocketAddr, requests: u32) -> anyhow::Result<Vec<f64>> {
    let connect = || TcpStream::connect_timeout(&address, CONNECT_WITHIN);
    let stream = namespace::within(client, connect)?.context("no connection")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let start = Instant::now();
    let sent_at = |number| start + Duration::from_secs(1) * number / PER_SECOND;
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut times = Vec::new();
            let mut message = [0; MESSAGE];
            for number in 0..requests {
                if (&stream).read_exact(&mut message).is_err() {
                    break;
                }
                times.push(sent_at(number).elapsed().as_secs_f64() * 1e3);
            }
            times
        });
        for number in 0..requests {
            thread::sleep(sent_at(number).saturating_duration_since(Instant::now()));
            if (&stream).write_all(&[0x5a; MESSAGE]).is_err() {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                break;
            }
        }
        let mut times = reader.join().expect("the reader does not panic");
        let missing = (0..requests).skip(times.len());
        times.extend(missing.map(|_| f64::INFINITY));
        times.sort_by(f64::total_cmp);
        Ok(times)
    })
}

/// Answers the requests of one client until the client leaves.
fn answer(listener: &TcpListener) -> io::Result<()> {
    let deadline = Instant::now() + CONNECT_WITHIN;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() > deadline => return Ok(()),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut message = [0; MESSAGE];
    while stream.read_exact(&mut message).is_ok() {
        if stream.write_all(&message).is_err() {
            break;
        }
    }
    Ok(())
}

/// A percentile of sorted times; NaN if there are none.
#[must_use]
pub fn percentile(times: &[f64], percent: usize) -> f64 {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_least_that_enough_stay_below() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();

        assert_eq!(percentile(&times, 50), 100.0);
        assert_eq!(percentile(&times, 99), 198.0);
        assert_eq!(percentile(&times, 100), 200.0);
        assert!(percentile(&[], 50).is_nan());
    }
}

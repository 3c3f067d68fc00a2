//! Opens many connections at once: each asks, is answered, and stays open.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Octets of a question, and of an answer.
const ASKED: usize = 100;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// Takes connections, answers each once, and holds all open until the process ends.
///
/// # Errors
/// When the address cannot be listened at.
pub fn answer(at: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let (mut asking, mut answered) = (Vec::new(), Vec::new());
    loop {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            asking.push((stream, 0));
        }
        let before = asking.len();
        for (mut stream, heard) in std::mem::take(&mut asking) {
            let mut question = [0; ASKED];
            let heard: usize = heard + stream.read(&mut question).unwrap_or(0);
            if heard < ASKED {
                asking.push((stream, heard));
            } else if stream.write_all(&question).is_ok() {
                answered.push(stream);
            }
        }
        if asking.len() == before {
            thread::sleep(PAUSE);
        }
    }
}

/// Opens `count` connections and waits for their answers; returns the connections and the time for
/// all.
///
/// # Errors
/// When a connection is refused, broken off or not answered.
pub fn open(to: SocketAddr, count: usize) -> anyhow::Result<(Vec<TcpStream>, Duration)> {
    let began = Instant::now();
    let mut streams = Vec::with_capacity(count);
    for number in 1..=count {
        let open = || -> io::Result<TcpStream> {
            let mut stream = TcpStream::connect(to)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&[7; ASKED])?;
            Ok(stream)
        };
        streams.push(open().with_context(|| format!("connection {number} of {count}"))?);
    }
    for (number, stream) in streams.iter_mut().enumerate() {
        let mut answer = [0; ASKED];
        stream
            .read_exact(&mut answer)
            .with_context(|| format!("the answer over connection {} of {count}", number + 1))?;
        ensure!(answer == [7; ASKED], "connection {} has another's answer", number + 1);
    }
    Ok((streams, began.elapsed()))
}

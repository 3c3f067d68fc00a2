//! Sends and receives messages by the `[sar]` service of a gateway, as any program can.

pub mod receive;
pub mod send;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// A connection to the service.
struct Service {
    stream: BufReader<UnixStream>,
}

impl Service {
    fn connect(socket: &Path) -> anyhow::Result<Self> {
        let own = gateway::own_file(socket).filter(|own| own.exists());
        let socket = own.as_deref().unwrap_or(socket);
        let stream = UnixStream::connect(socket).map_err(|error| {
            let path = socket.display();
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
                    "no gateway with a section [sar] listens at {path}: `trackway run FILE` starts one, --socket names \
                     its socket"
                ),
                io::ErrorKind::PermissionDenied => anyhow::anyhow!(
                    "{path}: you may not send messages: root may, or the group of socket-group in [sar]"
                ),
                _ => anyhow::anyhow!("cannot connect to {path}: {error}"),
            }
        })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a request, with octets behind the line.
    fn ask(&mut self, request: &Value, octets: &[u8]) -> anyhow::Result<()> {
        let mut line = request.to_string();
        line.push('\n');
        let stream = self.stream.get_mut();
        let written = stream.write_all(line.as_bytes()).and_then(|()| stream.write_all(octets));
        // The gateway's answer before it closes the connection tells more.
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.context("the gateway does not listen any more"),
        }
    }

    /// The next answer, and the octets behind it.
    fn answer(&mut self) -> anyhow::Result<(Value, Vec<u8>)> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        if read.context("the gateway does not answer any more")? == 0 {
            bail!("the gateway has ended the connection: what it had accepted it still sends");
        }
        let answer: Value = serde_json::from_str(&line).context("the gateway's answer")?;
        let mut octets = Vec::new();
        if let Some(length) = answer["octets"].as_u64() {
            self.stream.by_ref().take(length).read_to_end(&mut octets)?;
        }
        if answer["is"] == "error" {
            bail!("the gateway says: {}", answer["why"].as_str().unwrap_or_default());
        }
        Ok((answer, octets))
    }
}

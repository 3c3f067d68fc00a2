//! Compares our UDP sockets with quinn-udp, and our segmentation offload with tun-rs: time of the processor per unit
//! of work, in turns within one run. Needs root, for network namespaces of its own threads.
//!
//! ```text
//! cargo bench -p trackway-gateway --bench libraries
//!
//!   UDP   sender ─▶ 1 or 8 receivers on a loopback interface, one thread for all
//!   TUN   TCP client ─▶ device ─▶ cut ─▶ join ─▶ device ─▶ TCP server, one thread between the devices
//! ```

use std::error::Error;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gateway::linux::offload::{HEADER, Joiner, Offload};
use gateway::sys::{Arrivals, Outbox, Tap, Udp};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::time::{ClockId, clock_gettime};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tun_rs::{DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

/// Each of both does the work so many times, in turns; the medians are compared.
const ROUNDS: usize = 9;
/// Datagrams of the tunnel on a path of 1,500 octets.
const DATAGRAM: usize = 1_400;
const BATCH: usize = 32;
const BATCHES: usize = 4_000;
const FLOW: Duration = Duration::from_millis(1_500);
const PACKET: usize = 1_500;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    // `cargo test` runs benchmarks too, to see that they build.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    println!("{:<34}{:>12}{:>12}{:>8}  library", "", "ours", "library", "ratio");
    for peers in [1, 8] {
        let name = format!("UDP, {peers} peers, ns a datagram");
        compare(&name, "quinn-udp", || udp_ours(peers), || udp_quinn(peers))?;
    }
    compare("TUN, CPU ns a kB of TCP", "tun-rs", tun_ours, tun_library)?;
    Ok(())
}

/// Runs both in turns, and prints the medians and theirs divided by ours.
fn compare(
    name: &str,
    library: &str,
    mut ours: impl FnMut() -> Outcome<f64>,
    mut theirs: impl FnMut() -> Outcome<f64>,
) -> Outcome<()> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        costs[0].push(ours()?);
        costs[1].push(theirs()?);
    }
    let [ours, theirs] = costs.map(|mut costs| {
        costs.sort_by(f64::total_cmp);
        costs[ROUNDS / 2]
    });
    println!("{name:<34}{ours:>12.0}{theirs:>12.0}{:>8.2}  {library}", theirs / ours);
    Ok(())
}

/// The processor time used by this thread.
fn cpu_time() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Calls `send` for each batch and then `receive` until all has come; returns nanoseconds a datagram.
fn udp_cost(
    mut send: impl FnMut() -> Outcome<()>,
    mut receive: impl FnMut() -> Outcome<usize>,
) -> Outcome<f64> {
    let start = cpu_time()?;
    for _ in 0..BATCHES {
        send()?;
        let mut missing = BATCH;
        while missing > 0 {
            // Loopback delivers within the system call of the sender.
            missing = missing.checked_sub(receive()?.max(1)).ok_or("more than was sent")?;
        }
    }
    let nanoseconds = (cpu_time()? - start).as_nanos() as f64;
    Ok(nanoseconds / (BATCHES * BATCH) as f64)
}

fn udp_ours(peers: usize) -> Outcome<f64> {
    let sender = Udp::open(anywhere())?;
    let receivers = (0..peers).map(|_| Udp::open(anywhere())).collect::<io::Result<Vec<_>>>()?;
    let names = receivers.iter().map(|udp| address(udp.as_fd())).collect::<Outcome<Vec<_>>>()?;
    let (mut outbox, mut arrivals) = (Outbox::default(), Arrivals::default());
    let octets = [7; DATAGRAM];
    udp_cost(
        || {
            for turn in 0..BATCH {
                let start = outbox.memory().len();
                outbox.memory().extend_from_slice(&octets);
                outbox.push(names[turn % peers], start, start + DATAGRAM);
            }
            if sender.send(&mut outbox) { Ok(()) } else { Err("no room".into()) }
        },
        || {
            let mut count = 0;
            for receiver in &receivers {
                while receiver.receive(&mut arrivals)? > 0 {
                    count += arrivals.datagrams().count();
                }
            }
            Ok(count)
        },
    )
}

fn udp_quinn(peers: usize) -> Outcome<f64> {
    let open = || -> Outcome<_> {
        let socket = UdpSocket::bind(anywhere())?;
        let state = UdpSocketState::new((&socket).into())?;
        state.set_send_buffer_size((&socket).into(), 4 << 20)?;
        state.set_recv_buffer_size((&socket).into(), 4 << 20)?;
        Ok((socket, state))
    };
    let (sender, sending) = open()?;
    let receivers = (0..peers).map(|_| open()).collect::<Outcome<Vec<_>>>()?;
    let names = receivers.iter().map(|(socket, _)| socket.local_addr());
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let mut buffers = vec![vec![0; 1 << 16]; quinn_udp::BATCH_SIZE];
    let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
    let octets = [7; DATAGRAM];
    let mut memory = Vec::new();
    udp_cost(
        || {
            memory.clear();
            for _ in 0..BATCH {
                memory.extend_from_slice(&octets);
            }
            // As our outbox does: neighbours with the same destination go as a train.
            let train = if peers == 1 { BATCH } else { 1 };
            for (turn, contents) in memory.chunks(train * DATAGRAM).enumerate() {
                let destination = names[turn % peers];
                let segment_size = (train > 1).then_some(DATAGRAM);
                let transmit =
                    Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
                sending.try_send((&sender).into(), &transmit)?;
            }
            Ok(())
        },
        || {
            let mut count = 0;
            for (socket, state) in &receivers {
                loop {
                    let mut slices = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
                    let mut slices: [_; quinn_udp::BATCH_SIZE] =
                        std::array::from_fn(|_| slices.next().expect("as many as messages"));
                    let received = match state.recv(socket.into(), &mut slices, &mut metas) {
                        Ok(received) => received,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error.into()),
                    };
                    let messages = metas[..received].iter();
                    count +=
                        messages.map(|meta| meta.len.div_ceil(meta.stride.max(1))).sum::<usize>();
                }
            }
            Ok(count)
        },
    )
}

fn address(fd: BorrowedFd<'_>) -> Outcome<SocketAddr> {
    let name: nix::sys::socket::SockaddrIn = nix::sys::socket::getsockname(fd.as_raw_fd())?;
    Ok((name.ip(), name.port()).into())
}

/// Runs `open` in a namespace of its own with the device's address and a route, and then `talk` there in the background.
fn in_namespace<D: Send + 'static>(
    address: &'static str,
    open: impl FnOnce() -> Outcome<D> + Send + 'static,
    talk: impl FnOnce() -> Outcome<u64> + Send + 'static,
) -> Outcome<(D, thread::JoinHandle<Outcome<u64>>)> {
    let (give, take) = std::sync::mpsc::channel();
    let talking = thread::spawn(move || -> Outcome<u64> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let device = open()?;
        for arguments in [
            &["address", "add", address, "dev", "libs0"][..],
            &["link", "set", "dev", "libs0", "mtu", "1500", "up"],
        ] {
            if !Command::new("ip").args(arguments).status()?.success() {
                return Err("ip failed".into());
            }
        }
        give.send(device).map_err(|_| "nobody waits for the device")?;
        talk()
    });
    match take.recv() {
        Ok(device) => Ok((device, talking)),
        Err(_) => Err(talking.join().expect("it does not panic").expect_err("it sent nothing")),
    }
}

/// Nanoseconds of the forwarding thread for each kB of a TCP flow from one device to the other.
fn tun_cost<D: Send + 'static>(
    open: impl Fn() -> Outcome<D> + Copy + Send + 'static,
    forward: impl FnOnce([D; 2], &AtomicBool) -> Outcome<Duration> + Send + 'static,
) -> Outcome<f64> {
    let (server, receiving) = in_namespace("10.9.0.2/24", open, move || {
        let listener = TcpListener::bind("0.0.0.0:9")?;
        let (mut stream, _) = listener.accept()?;
        let (mut octets, mut buffer) = (0, vec![0; 1 << 18]);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(octets),
                len => octets += len as u64,
            }
        }
    })?;
    let (client, sending) = in_namespace("10.9.0.1/24", open, move || {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut stream = loop {
            match TcpStream::connect("10.9.0.2:9") {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        let (start, buffer) = (Instant::now(), vec![7; 1 << 17]);
        while start.elapsed() < FLOW {
            stream.write_all(&buffer)?;
        }
        Ok(0)
    })?;
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&is_over);
    let forwarding = thread::spawn(move || forward([client, server], &watched));
    let sent = sending.join().expect("it does not panic");
    let received = receiving.join().expect("it does not panic");
    is_over.store(true, Ordering::Relaxed);
    let cost = forwarding.join().expect("it does not panic")?;
    sent?;
    Ok(cost.as_nanos() as f64 / (received? as f64 / 1000.0))
}

/// Waits for either device; false when the flow is over.
fn wait(devices: [BorrowedFd<'_>; 2], is_over: &AtomicBool) -> Outcome<bool> {
    let mut waits = devices.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    poll(&mut waits, PollTimeout::from(20u8))?;
    Ok(!is_over.load(Ordering::Relaxed))
}

fn tun_ours() -> Outcome<f64> {
    tun_cost(
        || Ok(Tap::open_tun("libs0")?),
        |devices: [Tap; 2], is_over| {
            let (mut octets, mut scratch) = (vec![0; HEADER + (1 << 16)], Vec::new());
            let mut joiner = Joiner::new(devices[0].takes_datagram_trains());
            while wait([devices[0].as_fd(), devices[1].as_fd()], is_over)? {
                for (from, to) in [(&devices[0], &devices[1]), (&devices[1], &devices[0])] {
                    // What the other device does not take is lost, as on any link.
                    let mut write = |train: &[u8]| drop(to.write(train));
                    while let Some(len) = from.read(&mut octets)? {
                        let offload = Offload::parse(&octets[..len], 0)?;
                        offload.segment(&mut octets[HEADER..len], &mut scratch, |packet| {
                            joiner.push(packet, &mut write);
                        })?;
                        joiner.flush(&mut write);
                    }
                }
            }
            Ok(cpu_time()?)
        },
    )
}

fn tun_library() -> Outcome<f64> {
    tun_cost(
        || {
            let builder = DeviceBuilder::new().name("libs0").with(|device| {
                device.offload(true);
            });
            let device = builder.build_sync()?;
            device.set_nonblocking(true)?;
            Ok(device)
        },
        |devices: [SyncDevice; 2], is_over| {
            let mut original = vec![0; VIRTIO_NET_HDR_LEN + (1 << 16)];
            let mut packets = vec![vec![0; VIRTIO_NET_HDR_LEN + PACKET]; IDEAL_BATCH_SIZE];
            let (mut sizes, mut table) = (vec![0; IDEAL_BATCH_SIZE], GROTable::default());
            while wait([devices[0].as_fd(), devices[1].as_fd()], is_over)? {
                for (from, to) in [(&devices[0], &devices[1]), (&devices[1], &devices[0])] {
                    loop {
                        let offset = VIRTIO_NET_HDR_LEN;
                        let read =
                            from.recv_multiple(&mut original, &mut packets, &mut sizes, offset);
                        let count = match read {
                            Ok(count) => count,
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                            Err(error) => return Err(error.into()),
                        };
                        for (packet, &size) in packets[..count].iter_mut().zip(&sizes) {
                            packet.truncate(offset + size);
                        }
                        let _ = to.send_multiple(&mut table, &mut packets[..count], offset);
                        for packet in &mut packets[..count] {
                            packet.resize(offset + PACKET, 0);
                        }
                    }
                }
            }
            Ok(cpu_time()?)
        },
    )
}

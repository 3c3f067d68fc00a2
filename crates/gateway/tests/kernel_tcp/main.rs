//! Tests `tcp` against the TCP of this machine's kernel, over a TUN device in a namespace.
//!
//! ```text
//!   std::net sockets ── kernel TCP ── tun ══ losses, delays, doubles ══ Connection ── application
//!       10.9.0.1, fd09::1            (a network namespace)              10.9.0.2, fd09::2
//! ```
#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod rig;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use rig::{Rig, Trouble, configs, in_a_namespace, kernel, ours, pattern, quick, read_to_end};
use tcp::{Event, State};

const MEGABYTE: usize = 1_000_000;

#[test]
#[ignore = "needs root: run by ./test"]
fn octets_cross_both_ways_whoever_connects_and_whoever_closes() {
    for is_v6 in [false, true] {
        for config in configs() {
            for (we_connect, we_close_first) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                in_a_namespace(move || {
                    let mut rig = Rig::new(config, Trouble::NONE);
                    rig.exchange(is_v6, we_connect, we_close_first, MEGABYTE / 2);
                });
            }
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn octets_cross_a_path_that_loses_delays_and_doubles() {
    for config in configs() {
        for we_connect in [true, false] {
            in_a_namespace(move || {
                let mut rig = Rig::new(config, Trouble::MUCH);
                rig.exchange(false, we_connect, we_connect, MEGABYTE / 4);
            });
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_kernel_refuses_where_it_does_not_listen() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        rig.connect(kernel(false, 9));
        rig.run_until("the kernel's refusal", |rig| rig.has(Event::Reset));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn we_refuse_where_nobody_listens() {
    in_a_namespace(|| {
        // The kernel knocks where nobody listens, and gets the reset for no connection.
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let knock = thread::spawn(|| TcpStream::connect(ours(false, 9)).map(|_| ()));
        rig.run_until("our refusal", |_| knock.is_finished());
        let error = knock.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reset_of_the_kernel_ends_our_end() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let stream = rig.connected();
        rig.send(b"never read");
        rig.run_until("our data is there", |rig| rig.tcp().flight_size() == 0);
        // A socket closed before its data is read sends a reset.
        drop(stream);
        rig.run_until("the kernel's reset", |rig| rig.has(Event::Reset));
        assert_eq!(rig.tcp().state(), State::Closed);
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn our_reset_ends_the_kernels_end() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let mut stream = rig.connected();
        let reader = thread::spawn(move || stream.read(&mut [0]));
        rig.tcp().abort();
        rig.run_until("the kernel sees our reset", |_| reader.is_finished());
        let error = reader.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn we_go_on_after_the_kernel_has_closed() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let stream = rig.connected();
        stream.shutdown(Shutdown::Write).unwrap();
        rig.run_until("the kernel's FIN", |rig| rig.has(Event::PeerClosed));
        let reader = read_to_end(stream);
        rig.send(&pattern(MEGABYTE));
        rig.closes = true;
        rig.run_until("our end", |rig| rig.has(Event::Closed) && reader.is_finished());
        assert!(reader.join().unwrap() == pattern(MEGABYTE));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_kernel_goes_on_after_we_have_closed() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let mut stream = rig.connected();
        rig.closes = true;
        rig.run_until("our FIN is there", |rig| rig.tcp().state() == State::FinWait2);
        let writer = thread::spawn(move || stream.write_all(&pattern(MEGABYTE)).unwrap());
        // Once both ends have closed, time-wait leads to the end however late this is looked at.
        rig.run_until("the kernel's FIN", |rig| rig.has(Event::PeerClosed));
        writer.join().unwrap();
        rig.run_until("our end", |rig| rig.has(Event::Closed));
        assert!(rig.received == pattern(MEGABYTE));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_kernel_closes_its_window_and_opens_it_again() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let stream = rig.connected();
        rig.send(&pattern(20 * MEGABYTE));
        rig.run_until("the kernel's window is closed", |rig| {
            rig.tcp().peer_window() < 1_000 && rig.tcp().stats().sent.window_probes > 1
        });
        let reader = read_to_end(stream);
        rig.closes = true;
        rig.run_until("the end", |_| reader.is_finished());
        assert!(reader.join().unwrap() == pattern(20 * MEGABYTE));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn our_window_closes_and_opens_again() {
    in_a_namespace(|| {
        let mut rig = Rig::new(quick(), Trouble::NONE);
        let mut stream = rig.connected();
        rig.is_lazy = true;
        let writer = thread::spawn(move || stream.write_all(&pattern(20 * MEGABYTE)).unwrap());
        let full = quick().receive_buffer - 1_500;
        rig.run_until("our window is closed", |rig| {
            rig.tcp().readable() > full && rig.tcp().stats().received.out_of_window > 1
        });
        rig.is_lazy = false;
        rig.run_until("the end", |rig| rig.has(Event::PeerClosed));
        writer.join().unwrap();
        assert!(rig.received == pattern(20 * MEGABYTE));
    });
}

//! When nodes come and go, how much TCP carries, and how many stations are too many. `./test` lets each
//! of these run alone.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::scenario::{Flow, Plan, Transfer};
use lab::tcp::as_linux;
use testbed::probe::Iperf;

use super::bed::{Air, address, count, row};

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_is_gone_while_it_is_off_or_out_of_range() {
    // It leaves the range of 250 m after 6.5 s, and comes back to it after 10.5 s.
    let scenario = "nodes = [\"n0\", \"n1\"]\n[[radio]]\n[node.n0]\nposition = [0, 0]\n[node.n1]\n\
                    position = [200, 0]\nmotion = [{ at = \"4s\", to = [280, 0], speed = 20 }, \
                    { at = \"9s\", to = [200, 0], speed = 20 }]\noff = [[\"2s\", \"4s\"]]\n";
    let air = Air::new(2, scenario);
    let began = Instant::now();
    air.introduce_all();
    let receiver = air.nets.within(&air.nodes[1], || UdpSocket::bind("0.0.0.0:4000").unwrap());
    let sender = air.nets.within(&air.nodes[0], || UdpSocket::bind("0.0.0.0:0").unwrap());
    receiver.set_nonblocking(true).unwrap();

    let mut arrivals = Vec::new();
    let mut next = began;
    while began.elapsed() < Duration::from_secs(13) {
        if Instant::now() >= next {
            sender.send_to(&[0; 100], (address(1), 4_000)).unwrap();
            next += Duration::from_millis(100);
        }
        while receiver.recv(&mut [0; 200]).is_ok() {
            arrivals.push(began.elapsed().as_secs_f64());
        }
        thread::sleep(Duration::from_millis(2));
    }

    let pairs = arrivals.windows(2).filter(|pair| pair[1] - pair[0] > 1.0);
    let gaps: Vec<[f64; 2]> = pairs.map(|pair| [pair[0], pair[1]]).collect();
    println!("silent {gaps:.2?} s, predicted [[2.00, 4.00], [6.50, 10.50]]");
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    for (gap, predicted) in gaps.iter().zip([[2.0, 4.0], [6.5, 10.5]]) {
        // A datagram every 0.1 s, some attempts to send it, and a busy machine.
        let is_near = |index: usize| (gap[index] - predicted[index]).abs() < 0.4;
        assert!(is_near(0) && is_near(1), "{gap:?}, predicted {predicted:?}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_kernels_tcp_carries_what_the_simulator_says() {
    let measure = |hops: u32| {
        // A lost segment holds up its receiver for a full queue, more than a second of three hops.
        let time = hops * Duration::from_secs(15);
        let places: Vec<f64> = (0..=hops).map(|node| 200.0 * f64::from(node)).collect();
        (hops, live_goodput(&places, time), places, time)
    };
    // Each row has an air of its own, and leaves the machine mostly idle.
    let measured = thread::scope(|scope| {
        [1, 2, 3].map(|hops| scope.spawn(move || measure(hops))).map(|row| row.join().unwrap())
    });
    println!("hops        live   simulated, kbit/s of TCP CUBIC");
    for (hops, live, places, time) in measured {
        let simulated = simulated_goodputs(&row(&places, ""), places.len() - 1, time);

        let [least, most] =
            [f64::min, f64::max].map(|of| simulated.into_iter().reduce(of).unwrap());
        println!("{hops:>4} {:>11.0} {:>6.0} to {:.0}", live / 1e3, least / 1e3, most / 1e3);
        // One live run is one more sample of the simulator's distribution.
        let is_near = live > 0.9 * least && live < 1.1 * most;
        assert!(is_near, "{hops} hops: {live}, {least} to {most} bit/s");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn fifty_nodes_are_on_the_air_in_real_time() {
    let nodes = 50;
    let names: Vec<String> = (0..nodes).map(|node| format!("\"n{node}\"")).collect();
    let mut scenario = format!("nodes = [{}]\n[[radio]]\n", names.join(", "));
    for node in 0..nodes {
        // Ten columns and five rows, 150 m apart.
        scenario +=
            &format!("[node.n{node}]\nposition = [{}, {}]\n", node % 10 * 150, node / 10 * 150);
    }
    let mut air = Air::new(nodes, &scenario);
    // What routing protocols say, about twice a second.
    let hellos: Vec<UdpSocket> = air
        .nodes
        .iter()
        .map(|node| air.nets.within(node, || UdpSocket::bind("0.0.0.0:4000").unwrap()))
        .collect();
    for socket in &hellos {
        socket.set_broadcast(true).unwrap();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for socket in &hellos {
                    let _ = socket.send_to(&[0; 64], "10.128.0.255:4000");
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let between = (&air.nodes[0][..], &air.nodes[1][..]);
        let iperf = Iperf { between, address: &address(1), seconds: 10, left_out: 0, args: &[] };
        let goodput = iperf.goodput(&mut air.nets);
        is_over.store(true, Ordering::Relaxed);
        goodput.unwrap();
    });

    let report = air.end();
    let broadcasts: u64 = (0..nodes).map(|node| count(&report, node, "broadcasts")).sum();
    let [mean, longest] = ["late_mean_s", "late_longest_s"].map(|it| report[it].as_f64().unwrap());
    println!("{broadcasts} broadcasts, late by {mean:.6} s in the mean, {longest:.6} s at most");
    assert!(broadcasts > 500, "{broadcasts}");
    assert!(mean < 0.005, "late by {mean} s");
}

/// Bits a second of the kernel's TCP from the first node of a row to the last.
fn live_goodput(places: &[f64], time: Duration) -> f64 {
    let mut air = Air::row(places, "");
    air.route_along();
    let last = places.len() - 1;
    for node in &air.nodes {
        air.nets.run(node, "ip route change 10.128.0.0/24 dev wlan0 congctl cubic");
    }
    for other in 2..=last {
        let (to, via) = (address(other), address(1));
        air.nets.run(
            &air.nodes[0],
            &format!("ip route change {to}/32 via {via} dev wlan0 congctl cubic"),
        );
    }
    assert!(air.is_answered(0, last));
    let between = (&air.nodes[0][..], &air.nodes[last][..]);
    let seconds = time.as_secs().try_into().unwrap();
    let iperf = Iperf { between, address: &address(last), seconds, left_out: 0, args: &[] };
    iperf.goodput(&mut air.nets).unwrap()
}

/// The same in some runs of the simulator.
fn simulated_goodputs(scenario: &str, last: usize, time: Duration) -> [f64; 8] {
    let mut plan = Plan::parse(Path::new("row.toml"), scenario.to_owned()).unwrap();
    plan.duration = time;
    let tcp = as_linux(tcp::Config::default());
    plan.transfers.push(Transfer { flow: Flow::new([0, last], 9), octets: None, tcp });
    [1, 2, 3, 4, 5, 6, 7, 8].map(|seed| {
        let report = plan.run(Some(seed), None).unwrap();
        let received = report.flows[0].tcp.as_ref().unwrap().octets_received;
        8.0 * received as f64 / time.as_secs_f64()
    })
}

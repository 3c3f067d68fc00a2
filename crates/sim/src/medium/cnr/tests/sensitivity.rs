//! How much results depend on what is assumed: the table of `docs/protocols/channels.md`.

use base::rng::Rng;

use super::*;

/// Messages of a whole net a second: light and heavy load of a company.
const LOADS: [f64; 2] = [0.1, 0.4];
const SECONDS: u64 = 20_000;

/// The share of messages that arrive, and their mean delay in seconds.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    arrived: f64,
    delay: f64,
}

/// Messages of 168 octets, from random stations to random others, at random times.
fn outcome(config: Config, load: f64) -> Outcome {
    let mut lab = Lab::new(config, Hearing::All, 16, 0.0);
    lab.medium.observe(false);
    let mut rng = Rng::stream(1, "messages");
    let (mut sent, mut at) = (Vec::new(), Time::ZERO);
    let mean = Duration::from_secs_f64(1.0 / load);
    while at < secs(SECONDS) {
        at += rng.exponential(mean);
        lab.run(at);
        let from = usize::try_from(rng.below(16)).unwrap();
        let to = (from + 1 + usize::try_from(rng.below(15)).unwrap()) % 16;
        let (token, to) = (u32::try_from(sent.len()).unwrap(), Targets::one(StationId(to)));
        sent.push(at);
        lab.give(from, Frame { token, octets: 168, to, precedence: Precedence::Routine });
    }
    lab.run(at + Duration::from_secs(600));
    let delays = lab.events.iter().filter_map(|(now, event)| match event {
        Event::Received { token, .. } => Some(now.since(sent[*token as usize]).as_secs_f64()),
        _ => None,
    });
    let delays: Vec<f64> = delays.collect();
    let (count, sum) = (delays.len() as f64, delays.iter().sum::<f64>());
    Outcome { arrived: count / sent.len() as f64, delay: sum / count }
}

type Change = fn(&mut Config);

#[test]
fn what_is_assumed_matters_as_the_documentation_says() {
    let cases: [(&str, Change); 19] = [
        ("defaults", |_| {}),
        ("`key-up` 60 ms", |it| it.timing.key_up = Duration::from_millis(60)),
        ("`key-up` 610 ms", |it| it.timing.key_up = Duration::from_millis(610)),
        ("`busy-detect` 30 ms", |it| {
            it.timing.busy_detect = Some(Duration::from_millis(30));
        }),
        ("`turn` 100 ms", |it| it.timing.turn = Duration::from_millis(100)),
        ("`coding` none", |it| it.coding = Coding::Plain),
        ("`header-bits` 600", |it| it.header_bits = 600),
        ("`concatenate` 0", |it| it.concatenate = 0),
        ("`scheduling.factor` 0.1", |it| it.scheduling.factor = 0.1),
        ("`scheduling.factor` 2", |it| it.scheduling.factor = 2.0),
        ("`scheduling.persistence` 0.1", |it| it.scheduling.persistence = 0.1),
        ("`scheduling.persistence` 0.5", |it| it.scheduling.persistence = 0.5),
        ("`access` r-nad", |it| it.access = AccessMethod::Random),
        ("`access` p-nad", |it| it.access = AccessMethod::Prioritised),
        ("`access` h-nad", |it| it.access = AccessMethod::Hybrid),
        ("`access` dap-nad", |it| it.access = AccessMethod::DeterministicAdaptive),
        ("`acknowledgement` coupled", |it| it.link_type = LinkType::Coupled),
        ("`acknowledgement` decoupled", |it| it.link_type = LinkType::Decoupled),
        ("`loss` 10 %", |it| it.loss = 0.1),
    ];
    let mut found = Vec::new();
    for (name, change) in cases {
        let mut config = Config::default();
        change(&mut config);
        let [light, heavy] = LOADS.map(|load| outcome(config, load));
        let share = |it: Outcome| it.arrived * 100.0;
        println!(
            "| {name} | {:.1} % | {:.2} s | {:.1} % | {:.2} s |",
            share(light),
            light.delay,
            share(heavy),
            heavy.delay
        );
        found.push((name, [light, heavy]));
    }

    let of = |name: &str| found.iter().find(|(other, _)| other.contains(name)).unwrap().1;
    let usual = of("defaults");
    assert!(usual[0].arrived > usual[1].arrived && usual[0].delay < usual[1].delay);
    assert!(of("60 ms")[1].arrived > usual[1].arrived && of("60 ms")[0].delay < usual[0].delay);
    assert!(of("610 ms")[1].arrived < usual[1].arrived - 0.05);
    assert!(of("30 ms")[1].arrived > usual[1].arrived + 0.03);
    assert!(of("coupled")[1].arrived > usual[1].arrived);
    assert!(of("dap-nad")[1].arrived > 0.97);
    assert!((of("10 %")[0].arrived / usual[0].arrived - 0.9 / 0.98).abs() < 0.02);
}

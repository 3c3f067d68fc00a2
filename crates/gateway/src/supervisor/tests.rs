//! Services that do as they are told, and write down what becomes of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use nix::poll::PollFlags;

use super::*;
use crate::legacy::Left;
use crate::service::{Reload, Report, Service};

/// Three services: one for `[ipclient]`, one for `[hbh]`, one for `[[gre]]`.
static KINDS: [Kind; 3] = [
    Kind {
        name: "first",
        is_wanted: |config| config.ip_client.is_some(),
        rights: &[],
        set_up: |_| Fake::set_up("first"),
        clean_up: || note("first: cleaned up"),
    },
    Kind {
        name: "second",
        is_wanted: |config| config.hbh.is_some(),
        rights: &[],
        set_up: |_| Fake::set_up("second"),
        clean_up: || note("second: cleaned up"),
    },
    Kind {
        name: "third",
        is_wanted: |config| !config.gre.is_empty(),
        rights: &[],
        set_up: |_| Fake::set_up("third"),
        clean_up: || note("third: cleaned up"),
    },
];

const FIRST: &str = "[ipclient]\naddresses = [\"10.66.0.1/24\"]\n\
                     route = [{ node = \"0.0.0.2\", to = [\"10.2.0.0/16\"] }]\n";
const SECOND: &str = "[hbh]\ninterfaces = [\"wlan0\"]\n";
const THIRD: &str =
    "[[gre]]\nlocal = \"10.7.0.1\"\nremote = \"10.7.0.2\"\nto = [\"10.1.0.0/16\"]\n";

/// What a service is to do badly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    SetUp,
    Rights,
    Reload,
    Silence,
}

static FAULTS: Mutex<BTreeMap<&str, Fault>> = Mutex::new(BTreeMap::new());
static MENDED: Condvar = Condvar::new();
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(what: &str) {
    lock(&NOTES).push(what.to_owned());
}

fn notes() -> Vec<String> {
    std::mem::take(&mut lock(&NOTES))
}

fn has(name: &str, fault: Fault) -> bool {
    lock(&FAULTS).get(name) == Some(&fault)
}

fn mend(name: &str) {
    lock(&FAULTS).remove(name);
    MENDED.notify_all();
}

struct Fake(&'static str);

impl Fake {
    fn set_up(name: &'static str) -> anyhow::Result<Box<dyn Service>> {
        anyhow::ensure!(!has(name, Fault::SetUp), "something is missing");
        if has(name, Fault::Rights) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied)).context("cannot listen");
        }
        note(&format!("{name}: set up"));
        Ok(Box::new(Self(name)))
    }
}

impl Driver for Fake {
    fn act(&mut self, _now: Time) -> anyhow::Result<()> {
        Ok(())
    }

    fn next_timeout(&mut self) -> Option<Time> {
        None
    }

    fn watch<'a>(&'a self, _fds: &mut Vec<PollFd<'a>>) {}

    fn handle_ready(&mut self, _now: Time, _ready: &[PollFlags]) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Service for Fake {
    fn report(&self, _now: Time) -> Report {
        Report::default()
    }

    fn reload(&mut self, _now: Time, config: &Config) -> anyhow::Result<Reload> {
        anyhow::ensure!(!has(self.0, Fault::Reload), "it cannot follow");
        let is_silent =
            |faults: &mut BTreeMap<&str, Fault>| faults.get(self.0) == Some(&Fault::Silence);
        drop(MENDED.wait_while(lock(&FAULTS), is_silent).unwrap_or_else(PoisonError::into_inner));
        note(&format!("{}: protocol {}", self.0, config.hbh.as_ref().unwrap().core.protocol));
        Ok(Reload::Taken(Vec::new()))
    }

    fn hand_over(&mut self) -> anyhow::Result<Vec<Left>> {
        // Only one of them has something to leave.
        let has_device = self.0 == "first";
        let devices = has_device.then(|| File::open("/dev/null").unwrap().into());
        Ok(devices.into_iter().map(|descriptor| Left { name: "device", descriptor }).collect())
    }

    fn end(&mut self, _now: Time) {
        note(&format!("{}: ended", self.0));
    }
}

/// A supervisor of the three, and its file.
struct Rig {
    supervisor: Supervisor,
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    fn new(name: &str, text: &str, faults: &[(&'static str, Fault)]) -> Self {
        let turn = lock(&TURN);
        *lock(&FAULTS) = faults.iter().copied().collect();
        notes();
        let folder = std::env::temp_dir().join(format!("trackway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.toml");
        std::fs::write(&file, text).unwrap();
        let control = Control::at(&folder.join("control.sock")).unwrap();
        let config = Config::read(&file).unwrap();
        let supervisor = Supervisor::new(&file, config, control, &KINDS).unwrap();
        Self { supervisor, folder, _turn: turn }
    }

    /// What the service manager hears from now on; it wants to hear within so long that we are alive.
    fn listen(&mut self, alive_within: Option<Duration>) -> Receiver<String> {
        let (sender, heard) = mpsc::channel();
        let send = move |states: &[sd_notify::NotifyState<'_>], with: Option<BorrowedFd<'_>>| {
            let lines: Vec<_> = states.iter().map(ToString::to_string).collect();
            let with = if with.is_some() { "\nwith a descriptor" } else { "" };
            sender.send(lines.join("\n") + with).map_err(io::Error::other)
        };
        self.supervisor.notify = Notify::new(Box::new(send), alive_within);
        heard
    }

    fn reload(&mut self, text: &str) -> Reloaded {
        std::fs::write(self.folder.join("a.toml"), text).unwrap();
        self.supervisor.reload(Time::ZERO)
    }

    /// Takes what threads say until a service is as it should be.
    fn wait_until(&mut self, position: usize, is_so: impl Fn(&Slot) -> bool) {
        while !is_so(&self.supervisor.slots[position]) {
            let notice = self.supervisor.noticed.recv().unwrap();
            drop(self.supervisor.handle_notice(notice));
        }
    }

    /// Ends it for good, or as who fails does.
    fn end(self, is_for_good: bool) -> Vec<String> {
        let Self { supervisor, folder, _turn } = self;
        if is_for_good {
            supervisor.end();
        } else {
            drop(supervisor);
        }
        std::fs::remove_dir_all(&folder).unwrap();
        notes()
    }
}

#[test]
fn a_service_that_is_handed_over_leaves_its_state_and_the_others_clean_up() {
    let mut rig = Rig::new("hands-over", &[FIRST, SECOND].concat(), &[]);
    rig.supervisor.start_all().unwrap();
    let heard = rig.listen(None);

    let outcome = rig.supervisor.hand_over(Time::ZERO);

    assert_eq!(outcome, HandedOver::Left(vec!["first".to_owned()]));
    let told: Vec<_> = heard.try_iter().collect();
    assert_eq!(told, ["FDSTORE=1\nFDNAME=device\nFDPOLL=0\nwith a descriptor"]);
    let notes = rig.end(true);
    assert!(notes.contains(&"second: cleaned up".to_owned()), "{notes:?}");
    assert!(!notes.contains(&"first: cleaned up".to_owned()), "{notes:?}");
}

#[test]
fn a_gateway_that_nobody_ends_in_time_takes_back_what_it_handed_over() {
    let mut rig = Rig::new("goes-on", FIRST, &[]);
    rig.supervisor.start_all().unwrap();
    let heard = rig.listen(None);
    rig.supervisor.hand_over(Time::ZERO);
    let _ = heard.try_iter().count();

    let due = rig.supervisor.next_timeout();
    rig.supervisor.withdraw(Time::ZERO + Duration::from_secs(29));
    let early = (heard.try_iter().count(), rig.supervisor.folders.is_some());
    rig.supervisor.withdraw(Time::ZERO + Duration::from_secs(30));
    let told: Vec<_> = heard.try_iter().collect();

    assert!(due.is_some_and(|due| due <= Time::ZERO + Duration::from_secs(30)));
    // What takes long to close is closed beforehand.
    assert_eq!(early, (0, false));
    assert_eq!(told, ["FDSTOREREMOVE=1\nFDNAME=device"]);
    assert!(rig.supervisor.folders.is_some());
    assert!(rig.end(true).contains(&"first: cleaned up".to_owned()));
}

#[test]
fn without_a_service_manager_nothing_is_handed_over() {
    let mut rig = Rig::new("alone", FIRST, &[]);
    rig.supervisor.start_all().unwrap();

    let outcome = rig.supervisor.hand_over(Time::ZERO);

    let HandedOver::Refused(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("no service manager keeps descriptors"), "{why}");
    assert!(rig.end(true).contains(&"first: cleaned up".to_owned()));
}

#[test]
fn a_start_that_fails_leaves_what_a_crash_has_left() {
    let text = [FIRST, SECOND].concat();
    let mut rig = Rig::new("fails", &text, &[("second", Fault::SetUp)]);

    let why = format!("{:#}", rig.supervisor.start_all().unwrap_err());

    assert_eq!(why, "something is missing");
    assert_eq!(rig.end(false), ["first: set up", "first: ended"]);
}

#[test]
fn a_clean_end_cleans_up_also_what_waits_to_be_tried_again() {
    let text = [FIRST, SECOND].concat();
    let mut rig = Rig::new("waits", &text, &[("second", Fault::SetUp)]);
    rig.supervisor.start_all().unwrap_err();
    let is_waiting = rig.supervisor.slots[1].retry_at().is_some();

    let notes = rig.end(true);

    assert!(is_waiting);
    // Clients stand behind their servers, and end first.
    let expected = ["first: set up", "second: cleaned up", "first: ended", "first: cleaned up"];
    assert_eq!(notes, expected);
}

#[test]
fn what_a_reload_leaves_out_is_cleaned_up_whether_it_ran_or_not() {
    let text = [FIRST, SECOND].concat();
    let mut rig = Rig::new("left-out", &text, &[("second", Fault::SetUp)]);
    rig.supervisor.start_all().unwrap_err();

    let outcome = rig.reload(THIRD);

    let ended = ["first: ended", "second: ended", "third: started"].map(str::to_owned);
    assert_eq!(outcome, Reloaded::Changed(ended.into()));
    let expected = [
        "first: set up",
        "first: ended",
        "third: set up",
        "first: cleaned up",
        "second: cleaned up",
        "third: ended",
    ];
    assert_eq!(rig.end(false), expected);
}

#[test]
fn a_reload_that_a_service_refuses_ends_nobody() {
    let text = [FIRST, SECOND].concat();
    let mut rig = Rig::new("refused", &text, &[]);
    rig.supervisor.start_all().unwrap();
    lock(&FAULTS).insert("second", Fault::Reload);

    let outcome = rig.reload(SECOND);

    assert_eq!(outcome, Reloaded::Refused("second: it cannot follow".to_owned()));
    mend("second");
    assert_eq!(notes(), ["first: set up", "second: set up", "first: protocol 253"]);
    rig.end(false);
}

#[test]
fn what_left_before_another_could_not_start_is_back_and_was_not_cleaned_up() {
    let mut rig = Rig::new("back", FIRST, &[("third", Fault::SetUp)]);
    rig.supervisor.start_all().unwrap();

    let outcome = rig.reload(THIRD);

    assert_eq!(outcome, Reloaded::Refused("third: something is missing".to_owned()));
    let expected = ["first: set up", "first: ended", "first: set up", "third: cleaned up"];
    assert_eq!(notes(), expected);
    rig.end(false);
}

#[test]
fn who_does_not_answer_a_reload_has_refused_it_and_goes_back() {
    let mut rig = Rig::new("silent", SECOND, &[("second", Fault::Silence)]);
    rig.supervisor.start_all().unwrap();

    let outcome = rig.reload(&format!("{SECOND}protocol = 254\n"));
    mend("second");

    assert_eq!(outcome, Reloaded::Refused("second: it does not answer".to_owned()));
    let notes = rig.end(true);
    let expected = ["set up", "protocol 254", "protocol 253", "ended", "cleaned up"]
        .map(|it| format!("second: {it}"));
    assert_eq!(notes, expected);
}

#[test]
fn a_first_port_below_1024_is_said_to_take_a_new_start() {
    let mut rig = Rig::new("port", FIRST, &[("third", Fault::Rights)]);
    rig.supervisor.start_all().unwrap();

    let outcomes = [1_624, 162]
        .map(|port| rig.reload(&format!("{FIRST}[sar]\nlisten = [\"10.7.0.1:{port}\"]\n{THIRD}")));
    rig.end(false);

    let why = "third: cannot listen: permission denied";
    let hint = "the first port below 1024 takes a new start of the gateway";
    let expected = [why.to_owned(), format!("{hint}: {why}")].map(Reloaded::Refused);
    assert_eq!(outcomes, expected);
}

#[test]
fn the_service_manager_hears_of_start_reload_and_end() {
    let mut rig = Rig::new("told", SECOND, &[]);
    let heard = rig.listen(None);
    rig.supervisor.start_all().unwrap();
    rig.supervisor.notify.ready();
    rig.supervisor.act(Time::ZERO).unwrap();
    rig.supervisor.act(Time::ZERO).unwrap();

    rig.reload(&format!("{SECOND}protocol = 254\n"));
    rig.end(true);

    let heard: Vec<String> = heard.try_iter().collect();
    let [ready, status, reloading, again, stopping] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((&ready[..], &status[..]), ("READY=1", "STATUS=second runs"));
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{heard:?}");
    assert_eq!((&again[..], &stopping[..]), ("READY=1", "STOPPING=1"));
}

#[test]
fn a_failed_service_is_said_in_one_line_whatever_its_reason() {
    let mut rig = Rig::new("reason", SECOND, &[]);
    let heard = rig.listen(None);
    let why = anyhow::anyhow!("no (os error 99)\nMAINPID=1");
    rig.supervisor.slots[1].handle_failure(Time::ZERO, &why);

    rig.supervisor.tell_manager(Time::ZERO);

    let heard: Vec<String> = heard.try_iter().collect();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("STATUS=second does not run: no"), "{heard:?}");
    assert!(!heard[0].contains("os error"), "{heard:?}");
    assert!(!heard[0].contains('\n'), "{heard:?}");
    rig.end(false);
}

#[test]
fn the_watchdog_hears_nothing_while_a_service_does_not_answer() {
    let beat = Duration::from_secs(5);
    let mut rig = Rig::new("watchdog", &[FIRST, SECOND].concat(), &[]);
    let heard = rig.listen(Some(beat * 4));
    rig.supervisor.start_all().unwrap();
    let mut now = Time::ZERO;
    let mut beats_until = |rig: &mut Rig, wanted: bool, at_most: u32| {
        (0..at_most).any(|_| {
            now += beat;
            rig.supervisor.tell_manager(now);
            let is_heard = heard.try_iter().any(|it| it == "WATCHDOG=1");
            // The other threads answer in their own time.
            std::thread::sleep(Duration::from_millis(5));
            is_heard == wanted
        })
    };
    assert!(beats_until(&mut rig, true, 1));
    assert!(beats_until(&mut rig, true, 1_000));

    // This thread is busy until it is mended: a reload is waited for in vain.
    lock(&FAULTS).insert("second", Fault::Silence);
    let config = Arc::clone(&rig.supervisor.config);
    let busy = rig.supervisor.slots[1].running().unwrap().ask_reload(config);
    // It may still answer a question that came before the reload; the question after that waits behind the reload.
    let heard_yet = (0..23).filter(|_| beats_until(&mut rig, true, 1)).count();
    let was_silent = heard_yet <= 1;
    mend("second");
    let is_back = beats_until(&mut rig, true, 1_000);

    assert!(was_silent && is_back);
    drop(busy);
    rig.end(false);
}

#[test]
fn a_service_that_panics_is_dropped_and_started_again_and_no_other() {
    let text = [FIRST, SECOND].concat();
    let mut rig = Rig::new("panics", &text, &[]);
    rig.supervisor.start_all().unwrap();

    rig.supervisor.slots[0].running().unwrap().panic();
    rig.wait_until(0, |slot| slot.retry_at().is_some());
    let status = serde_json::to_value(rig.supervisor.slots[0].status()).unwrap();
    let at = rig.supervisor.slots[0].retry_at().unwrap();
    rig.supervisor.act(at).unwrap();
    rig.wait_until(0, |slot| slot.running().is_some());
    let is_other_well = rig.supervisor.slots[1].running().is_some();
    let notes = rig.end(true);

    assert_eq!(status["state"], "restarting", "{status}");
    assert_eq!(status["why"], "it panicked: a test asked for it");
    assert!(is_other_well);
    // Nothing is ended in order: no "first: ended" before it is set up again.
    assert_eq!(notes[..3], ["first: set up", "second: set up", "first: set up"]);
}

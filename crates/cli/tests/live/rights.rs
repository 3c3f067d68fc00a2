//! Tests the rights of a gateway on the machine, and the users allowed to query it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::namespaces::{Namespaces, SOON, TRACKWAY, copy_program, wait_until};

/// The kernel's bits for these capabilities.
/// The line of `/proc/PID/status` for CAP_CHOWN and CAP_NET_ADMIN alone.
const CHOWN: &str = "0000000000001001";
const DAC_READ_SEARCH: u64 = 1 << 2;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
/// A user that may do nothing.
const NOBODY: u32 = 65_534;
/// Calls are filtered, `PR_GET_SECCOMP`.
const FILTERED: &str = "2";

/// A gateway on a host without neighbours, its files in a folder that only root enters.
struct Host {
    nets: Namespaces,
    name: String,
    program: Option<usize>,
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_is_root_no_more_and_can_become_nobody_else() {
    let mut host = Host::new();
    host.start("");

    let pid = host.pid();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut all: Vec<_> = threads.map(|it| state(&it.unwrap().path())).collect();
    assert!(all.len() > 1, "{all:?}");
    let user = all[0]["Uid"].split('\t').next().unwrap().to_owned();
    // Others look at the host for a moment at the start, and end.
    let mut children = String::new();
    let are_three = wait_until(SOON, || {
        children = host.nets.run(&host.name, &format!("pgrep -P {pid}"));
        children.split_whitespace().count() == 3
    });
    assert!(are_three, "{children}");
    let (mut held, mut keeper) = (Vec::new(), None);
    for child in children.split_whitespace() {
        let is = state(&Path::new("/proc").join(child));
        if is["Name"] == "trackway-folder" {
            // Only root makes folders in /run. It is told nothing, and may give files away.
            let rights = ["CapPrm", "CapEff", "CapBnd"].map(|key| &is[key][..]);
            assert_eq!((rights, &is["NoNewPrivs"][..]), ([CHOWN; 3], "1"), "{is:?}");
            assert_eq!(is["Seccomp"], FILTERED, "{is:?}");
            continue;
        }
        all.push(state(&Path::new("/proc").join(child)));
        let rights = u64::from_str_radix(&all.last().unwrap()["CapPrm"], 16).unwrap();
        let name = all.last().unwrap()["Name"].clone();
        if name == "trackway-keeper" {
            keeper = Some(child.to_owned());
        }
        held.push((name, rights));
    }

    for is in &all {
        assert_ne!(user, "0");
        assert_eq!(is["Uid"], [&user[..]; 4].join("\t"), "{is:?}");
        assert_eq!(is["Gid"].split('\t').next().map(|it| it == "0"), Some(false), "{is:?}");
        assert_eq!((is["Groups"].trim(), &is["NoNewPrivs"][..]), ("", "1"), "{is:?}");
        assert_eq!(is["Seccomp"], FILTERED, "{is:?}");
        let [permitted, effective, bounding] =
            ["CapPrm", "CapEff", "CapBnd"].map(|key| u64::from_str_radix(&is[key], 16).unwrap());
        assert_eq!(permitted, effective, "{is:?}");
        assert_eq!((permitted | bounding) & !(NET_ADMIN | NET_RAW | DAC_READ_SEARCH), 0, "{is:?}");
    }
    // Root owns these files of a process whose memory no core dump and nobody else of its user gets.
    for process in [pid.clone()].into_iter().chain(keeper) {
        assert_eq!(fs::metadata(format!("/proc/{process}/mem")).unwrap().uid(), 0, "{process}");
    }
    // The program for firewall rules, and the read-only program for files.
    held.sort();
    let expected = [("nft", NET_ADMIN), ("trackway-keeper", DAC_READ_SEARCH)];
    assert_eq!(held, expected.map(|(name, rights)| (name.to_owned(), rights)));
    let printed = host.printed();
    assert!(printed.contains("root no more") && printed.contains(&user), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn helpers_that_somebody_stops_go_on_and_those_that_end_are_faults() {
    let mut host = Host::new();
    host.start("");
    let pid = host.pid();
    let find = |name: &str| {
        let found = host.nets.try_run(&host.name, &format!("pgrep -P {pid} {name}"));
        String::from_utf8_lossy(&found.stdout).into_owned()
    };
    let helpers = ["nft", "trackway-keeper", "trackway-folder"];
    // They take their names a moment after their start.
    assert!(wait_until(SOON, || helpers.iter().all(|name| !find(name).is_empty())));
    let helpers = helpers.map(find);
    let is = |pid: &str| state(&Path::new("/proc").join(pid.trim()))["State"].clone();

    for pid in &helpers {
        host.nets.run(&host.name, &format!("kill -STOP {pid}"));
    }
    assert!(wait_until(SOON, || helpers.iter().all(|pid| !is(pid).starts_with('T'))));
    assert_eq!(host.nets.status(&host.name)["faults"], serde_json::json!([]));

    for pid in &helpers[1..] {
        host.nets.run(&host.name, &format!("kill -KILL {pid}"));
    }
    let is_told = |program: &str| {
        let faults = host.nets.status(&host.name)["faults"].clone();
        let mut faults = faults.as_array().cloned().unwrap_or_default().into_iter();
        faults.any(|it| {
            it["code"] == "keeper-gone"
                && it["said"].as_str().is_some_and(|it| it.contains(program))
        })
    };
    for program in ["`keep-files`", "`keep-folder`"] {
        assert!(wait_until(SOON, || is_told(program)), "{program}: {}", host.printed());
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn files_for_root_alone_are_read_again_and_no_others() {
    let mut host = Host::new();
    let key = host.nets.folder().join("group.key");
    let made = host.trackway(&format!("keygen --group --out {}", key.display()));
    assert_eq!(made.1, "", "{made:?}");
    host.start("group-key = \"group.key\"\n");

    host.configure("group-key = \"group.key\"\nwindow = [2, 20]\n");
    let (changed, said) = host.trackway("reload");
    assert!(changed.contains("hbh: "), "{changed}{said}");
    // A file that its user could have made to lead there.
    let its = host.nets.folder().join("its");
    fs::create_dir(&its).unwrap();
    symlink("/etc/shadow", its.join("group.key")).unwrap();
    chown(&its, Some(fs::metadata(host.socket()).unwrap().uid()), None).unwrap();
    host.configure("group-key = \"its/group.key\"\n");
    let (_, refused) = host.trackway("reload");
    assert!(refused.contains("/its belongs to user "), "{refused}");

    host.configure("group-key = \"group.key\"\nwindow = [2, 24]\n");
    host.nets.program(host.program.unwrap()).signal(Signal::SIGHUP);
    let is_read =
        wait_until(SOON, || host.printed().matches("configuration read again").count() == 2);
    assert!(is_read, "{}", host.printed());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn root_reads_no_file_that_others_may_change() {
    let mut host = Host::new();
    host.configure("");
    let file = host.file();
    let commands = ["check", "run"].map(|command| format!("{command} {}", file.display()));

    for command in &commands {
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        let (_, refused) = host.trackway(command);
        let remedy = format!("(mode 0666): chmod go-w {}", file.display());
        assert!(refused.contains(&remedy), "{command}: {refused}");

        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        chown(&file, Some(NOBODY), None).unwrap();
        let (_, refused) = host.trackway(command);
        assert!(refused.contains("a.toml belongs to user 65534"), "{command}: {refused}");

        chown(&file, Some(0), None).unwrap();
        fs::set_permissions(host.nets.folder(), Permissions::from_mode(0o777)).unwrap();
        let (_, refused) = host.trackway(command);
        assert!(refused.contains("may be changed by others than its owner"), "{refused}");
        fs::set_permissions(host.nets.folder(), Permissions::from_mode(0o700)).unwrap();
    }
    // A key, a certificate, a trust anchor, and a folder on the way.
    let pki = host.nets.folder().join("pki");
    for made in ["ca", "issue"] {
        let more = if made == "ca" { "" } else { "--san web.example" };
        host.trackway(&format!("tls {made} {} {more}", pki.display()));
    }
    host.trackway(&format!("keygen --group --out {}/group.key", pki.display()));
    host.configure(
        "group-key = \"pki/group.key\"\n[hfpep]\n[[hfpep.peer]]\nnode = \"0.0.0.1\"\nto = [\"10.9.0.0/16\"]\n\
         [[rule]]\nname = \"web\"\ntls = \"web\"\n[[tls]]\nname = \"web\"\nrole = \"server\"\n\
         certificate = \"pki/web.example.crt\"\nkey = \"pki/web.example.key\"\n\
         client-trust-anchors = \"pki/ca.crt\"\nauth = [{ san = \"bob@unit.example\", id = \"bob\" }]\n",
    );
    let check = format!("check {}", file.display());
    let (_, refused) = host.trackway(&check);
    assert!(!refused.contains("may be changed"), "{refused}");
    for name in ["group.key", "web.example.crt", "web.example.key", "ca.crt", ""] {
        let named = pki.join(name);
        let mode = fs::metadata(&named).unwrap().permissions();
        fs::set_permissions(&named, Permissions::from_mode(mode.mode() | 0o022)).unwrap();
        let (_, refused) = host.trackway(&check);
        assert!(refused.contains("may be changed by others than its owner"), "{name}: {refused}");
        fs::set_permissions(&named, mode).unwrap();
    }
    host.configure("");
    // Who may call sudo decides what root runs anyway.
    chown(&file, Some(NOBODY), None).unwrap();
    let (said, refused) =
        host.trackway_by(&format!("env SUDO_UID={NOBODY}"), TRACKWAY, &commands[0]);
    assert!(said.ends_with(": all right\n") && !refused.contains("belongs to"), "{said}{refused}");
    chown(&file, Some(0), None).unwrap();

    // The gateway's user, should root let it write the configuration, has no other file opened by that.
    host.start("");
    let user = fs::metadata(host.socket()).unwrap().uid();
    host.configure("group-key = \"/etc/shadow\"\n");
    chown(&file, Some(user), None).unwrap();
    fs::set_permissions(host.nets.folder(), Permissions::from_mode(0o755)).unwrap();
    let (_, refused) = host.trackway("reload");
    assert!(refused.contains(&format!("a.toml belongs to user {user}")), "{refused}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn counters_are_written_where_only_root_makes_files() {
    let mut host = Host::new();
    let file = host.nets.folder().join("trackway.prom");
    host.add(&format!("metrics = {file:?}\n"));
    host.start("");

    let written = || fs::read_to_string(&file).unwrap_or_default().contains("trackway_service_up");
    assert!(wait_until(SOON, written), "{}", host.printed());
    let (code, printed) = host.stop();
    assert_eq!(code, Some(0), "{printed}");
    assert!(!printed.contains("counters not written"), "{printed}");
    // Nobody counts any more: a reader must not find services that are up.
    assert!(!written(), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn only_root_and_the_gateways_user_may_ask() {
    let mut host = Host::new();
    host.start("");
    let socket = host.socket();
    let is = fs::metadata(&socket).unwrap();
    assert_eq!(is.mode() & 0o777, 0o600);
    assert_eq!(
        is.uid().to_string(),
        state(&Path::new("/proc").join(host.pid()))["Uid"].split('\t').next().unwrap()
    );

    let (by_root, _) = host.trackway("status");
    let (by_its_user, _) = host.trackway_as(is.uid(), "status");
    let (_, by_another) = host.trackway_as(NOBODY, "status");
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let (_, past_the_mode) = host.trackway_as(NOBODY, "status");

    assert!(by_root.contains("hbh: running"), "{by_root}");
    assert!(by_its_user.contains("hbh: running"), "{by_its_user}");
    assert!(
        by_another.contains("no right to ask the gateway: only root and its user"),
        "{by_another}"
    );
    assert!(past_the_mode.contains("does not answer this user"), "{past_the_mode}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn clients_that_say_and_read_nothing_hold_up_nobody() {
    let mut host = Host::new();
    host.start("");
    let socket = host.socket();

    let silent: Vec<_> = (0..100).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let begun = Instant::now();
    let (status, said) = host.trackway("status");
    assert!(status.contains("hbh: running"), "{status}{said}");
    // A hundred silent ones, eight at a time, each for a second.
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let mut long = UnixStream::connect(&socket).unwrap();
    // Cut off, sooner or later.
    while long.write_all(&[b' '; 512]).is_ok() {}
    drop(silent);
    for _ in 0..1_000 {
        let mut asking = UnixStream::connect(&socket).unwrap();
        asking.write_all(b"\"status\"").unwrap();
    }
    let mut asking = UnixStream::connect(&socket).unwrap();
    asking.write_all(b"\"status\"").unwrap();
    asking.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"services\""), "{answer}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_crash_leaves_nothing_in_the_way_and_a_stop_leaves_nothing() {
    let mut host = Host::new();
    host.start("");
    let socket = host.socket();
    let (_, second) = host.trackway(&format!("run {}", host.file().display()));
    assert!(second.contains("a gateway runs in this network namespace already"), "{second}");

    host.nets.program(host.program.unwrap()).signal(Signal::SIGKILL);
    host.nets.program(host.program.unwrap()).finish(SOON);
    // The gateway's name stays until any gateway starts on this machine, perhaps that of another test.
    let (_, said) = host.trackway("status");
    assert!(said.contains("no gateway runs in this network namespace"), "{said}");
    host.start("");
    let (status, _) = host.trackway("status");
    assert!(status.contains("hbh: running"), "{status}");

    let (code, printed) = host.stop();
    assert_eq!(code, Some(0), "{printed}");
    assert!(!socket.exists());
    assert!(!Path::new(&format!("{}.lock", socket.display())).exists());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_user_and_the_control_socket_can_be_chosen() {
    let mut host = Host::new();
    host.add(&format!("user = \"{NOBODY}\"\n"));
    let at = host.nets.folder().join("control");
    host.start_with("", &format!("--control {}", at.display()));
    let lock = at.with_added_extension("lock");
    assert!(at.exists() && lock.exists());

    let uid =
        state(&Path::new("/proc").join(host.pid()))["Uid"].split('\t').next().unwrap().to_owned();
    let (status, _) = host.trackway(&format!("status --control {}", at.display()));
    let (_, usual) = host.trackway("status");
    let elsewhere = host.nets.folder().join("second");
    let second = format!("run {} --control {}", host.file().display(), elsewhere.display());
    let (_, second) = host.trackway(&second);
    host.stop();
    // The folder is root's, in which the gateway's user removes nothing.
    let is_gone = wait_until(SOON, || !at.exists() && !lock.exists());
    host.add("user = \"nobody-has-this\"\n");
    host.configure("");
    let (_, missing) = host.trackway(&format!("run {}", host.file().display()));
    host.add("user = \"root\"\n");
    host.start("");

    assert_eq!(uid, NOBODY.to_string());
    assert!(is_gone, "{} is left", at.display());
    assert!(status.contains("hbh: running"), "{status}");
    assert!(usual.contains("no gateway runs in this network namespace"), "{usual}");
    assert!(second.contains("a gateway runs in this network namespace already"), "{second}");
    assert!(missing.contains("there is no such account; `useradd --system"), "{missing}");
    let is_told = wait_until(SOON, || host.printed().contains("runs as root, as `user` says"));
    assert!(is_told, "{}", host.printed());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn each_gateway_has_a_user_and_a_folder_of_its_own_below_roots() {
    let [mut one, mut other] = [Host::new(), Host::new()];
    one.start("");
    other.start("");

    let is = fs::metadata("/run/trackway").unwrap();
    let folders = [&one, &other].map(|host| host.socket().parent().unwrap().to_owned());
    let owners = folders.each_ref().map(|folder| fs::metadata(folder).unwrap().uid());
    let users = [&mut one, &mut other].map(|host| host.user());
    let (code, printed) = one.stop();
    let left = one.socket();
    let (status, _) = other.trackway("status");
    other.stop();

    assert_eq!((is.uid(), is.gid(), is.mode() & 0o7777), (0, 0, 0o755), "{:o}", is.mode());
    assert_eq!(owners, users);
    assert!(users.iter().all(|user| (61_184..=65_519).contains(user)), "{users:?}");
    assert_ne!(users[0], users[1]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(!left.exists(), "{left:?}");
    assert!(status.contains("hbh: running"), "{status}");
    assert!(!other.socket().exists());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_socket_that_another_user_has_put_where_ours_would_be_is_not_asked() {
    const ASKING: u32 = 64_998;
    let host = Host::new();
    let base = std::env::temp_dir().join(format!("trackway-{ASKING}"));
    let folder = base.join(host.socket().parent().unwrap().file_name().unwrap());
    fs::create_dir_all(&folder).unwrap();
    let socket = folder.join(host.socket().file_name().unwrap());
    let fake = UnixListener::bind(&socket).unwrap();
    fake.set_nonblocking(true).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();

    chown(&base, Some(NOBODY), Some(NOBODY)).unwrap();
    let (_, said) = host.trackway_as(ASKING, "status");
    let is_asked = fake.accept().is_ok();
    // In a folder of its own it is asked, and hangs up.
    chown(&base, Some(ASKING), Some(ASKING)).unwrap();
    let is_asked_there = std::thread::scope(|scope| {
        let asked = scope.spawn(|| wait_until(SOON, || fake.accept().is_ok()));
        host.trackway_as(ASKING, "status");
        asked.join().unwrap()
    });
    fs::remove_dir_all(&base).unwrap();

    assert!(said.contains("no gateway runs in this network namespace"), "{said}");
    assert_eq!((is_asked, is_asked_there), (false, true));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_former_gateways_user_neither_answers_for_another_gateway_nor_locks_it_out() {
    let [mut former, mut host] = [Host::new(), Host::new()];
    former.add(&format!("user = \"{NOBODY}\"\n"));
    former.start("");
    former.stop();
    let [own, others] = [&former, &host].map(Host::socket);

    // The gateway has all rights below its own folder, and none elsewhere. The next gateway of any namespace removes an
    // empty folder; here the folder is never empty, as after a crash: other tests start gateways at this moment.
    let folder = own.parent().unwrap();
    let _ = fs::remove_file(Path::new("/run/trackway/lock").join(folder.file_name().unwrap()));
    let made = PathBuf::from(format!("/run/{}", former.name));
    fs::create_dir(&made).unwrap();
    fs::write(made.join("left"), "").unwrap();
    chown(&made, Some(NOBODY), Some(NOBODY)).unwrap();
    let _ = fs::remove_dir_all(folder);
    fs::rename(&made, folder).unwrap();
    let squat = format!(
        "
import fcntl, os, socket
lock = open('{own}.lock', 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
at = socket.socket(socket.AF_UNIX)
at.bind('{own}')
at.listen()
note = open('{folder}/settings', 'w')
fcntl.flock(note, fcntl.LOCK_EX)
os.makedirs('{folder}/sar.sock/below')
for elsewhere in '{others}', '/run/trackway/sar.sock', '/run/trackway/lock/1':
    try:
        socket.socket(socket.AF_UNIX).bind(elsewhere)
    except OSError as error:
        print('not at', elsewhere, error.strerror)
print('squats')
while True:
    asking = at.accept()[0]
    asking.sendall(b'{{\"services\": []}}')
    asking.close()
",
        own = own.display(),
        others = others.display(),
        folder = folder.display(),
    );
    let script = std::env::temp_dir().join(format!("{}-squat.py", former.name));
    fs::write(&script, squat).unwrap();
    // Another python3 may be one that only root can run.
    let squat = format!(
        "env PATH=/usr/bin:/bin:$PATH setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups python3 -u {}",
        script.display()
    );
    let name = former.name.clone();
    let squatter = former.nets.start(&name, &squat, "squats");
    fs::remove_file(folder.join("left")).unwrap();
    let elsewhere = former.nets.printed(squatter);

    let (answered, said) = former.trackway("status");
    host.start("");
    let (others_status, _) = host.trackway("status");
    host.stop();
    // Another user's gateway in the same network namespace, and with the socket of messages.
    // Where others than root may enter.
    let store = std::env::temp_dir().join(format!("{}-store", former.name));
    former.add("");
    former.start(&format!("[sar]\nlisten = [\"127.0.0.1:1580\"]\nstore = {store:?}\n"));
    let (status, _) = former.trackway("status");
    let (sent, unsent) = former.trackway("receive 5000 --count 0");
    let (code, printed) = former.stop();
    former.nets.program(squatter).signal(Signal::SIGKILL);
    fs::remove_file(script).unwrap();
    fs::remove_dir_all(store).unwrap();

    assert_eq!(elsewhere.matches("not at /").count(), 3, "{elsewhere}");
    assert_eq!(answered, "");
    assert!(said.contains("another user's program answers at "), "{said}");
    assert!(others_status.contains("hbh: running"), "{others_status}");
    assert!(status.contains("hbh: running") && status.contains("sar: running"), "{status}");
    assert_eq!((&sent[..], &unsent[..]), ("", ""));
    assert_eq!(code, Some(0), "{printed}");
    assert!(!printed.contains("settings of an earlier run"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_socket_says_moves_no_cursor() {
    let host = Host::new();
    let socket = host.nets.folder().join("fake");
    let listener = UnixListener::bind(&socket).unwrap();
    const HOSTILE: &str = "\u{1b}[2J\u{9b}H\u{7}";
    let services = serde_json::json!([{ "name": HOSTILE, "state": "up\nfault: forged", "since": 0, "restarts": 0 }]);
    let fault = serde_json::json!({ "code": HOSTILE, "severity": "low", "said": HOSTILE });
    let answers = [
        serde_json::json!({ "services": services, "faults": [fault] }).to_string(),
        serde_json::json!({ "faults": [fault] }).to_string(),
        // What is no JSON is told of.
        format!("{{\"invalid\": \"{HOSTILE}\"}}"),
        serde_json::json!({ "invalid": HOSTILE }).to_string(),
    ];

    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            for answer in &answers {
                let mut asking = listener.accept().unwrap().0;
                asking.read_to_string(&mut String::new()).unwrap();
                asking.write_all(answer.as_bytes()).unwrap();
            }
        });
        ["status", "status --json", "reload", "reload"]
            .map(|command| host.trackway(&format!("{command} --control {}", socket.display())))
    });

    for (out, err) in &said {
        let is_plain = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n');
        assert!(is_plain(out) && is_plain(err), "{out:?} {err:?}");
    }
    assert!(said[0].0.contains("\\u001b[2J"), "{}", said[0].0);
    assert!(!said[0].0.contains("\nfault: forged"), "{}", said[0].0);
    let whole: serde_json::Value = serde_json::from_str(&said[1].0).unwrap();
    assert_eq!(whole["faults"][0]["said"], HOSTILE);
    assert!(said[3].1.contains("\\u001b[2J"), "{}", said[3].1);
}

/// What `/proc` tells of a process or thread.
fn state(of: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(of.join("status")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_group_that_the_configuration_names_may_ask_and_order_nothing() {
    const ANOTHER: u32 = 65_533;
    let mut host = Host::new();
    host.add(&format!("status-group = \"{NOBODY}\"\n"));
    host.start_with("", "--log-format json");

    let (status, complaint) = host.trackway_as(NOBODY, "status");
    let (events, _) = host.trackway_as(NOBODY, "status --events");
    let (hbh, _) = host.trackway_as(NOBODY, "status hbh --json");
    let (_, of_reload) = host.trackway_as(NOBODY, "reload");
    let (_, of_another) = host.trackway_as(ANOTHER, "status");
    let mode = fs::metadata(host.socket()).unwrap().mode() & 0o777;
    let (code, printed) = host.stop();

    assert!(status.contains("hbh: running"), "{status}{complaint}");
    assert!(status.contains("no neighbour speaks HBH"), "{status}");
    assert!(events.contains("gateway ready"), "{events}");
    let hbh: serde_json::Value = serde_json::from_str(&hbh).unwrap();
    assert_eq!((&hbh["hbh"]["state"], hbh["hbh"]["peers"].is_array()), (&"ready".into(), true));
    assert!(of_reload.contains("does not answer this user"), "{of_reload}");
    assert!(of_another.contains("no right to ask"), "{of_another}");
    assert_eq!((mode, code), (0o660, Some(0)), "{printed}");
    // Each line of the log is an object, and the last one sums up in words.
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let last = lines.last().unwrap()["message"].as_str().unwrap();
    assert!(
        last.starts_with("gateway ends after ") && last.contains("; hbh: 0 packets taken"),
        "{last}"
    );
    assert!(last.len() < 300, "{last}");
}

impl Host {
    fn new() -> Self {
        let mut nets = Namespaces::new();
        let name = nets.add("host");
        let other = nets.add("other");
        nets.cable((&name, "eth0"), (&other, "eth0"));
        let folder = nets.folder().to_owned();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        Self { nets, name, program: None }
    }

    fn file(&self) -> PathBuf {
        self.nets.folder().join("a.toml")
    }

    /// Writes what stands before the sections.
    fn add(&self, lines: &str) {
        fs::write(self.nets.folder().join("before"), lines).unwrap();
    }

    fn configure(&self, more: &str) {
        let before = fs::read_to_string(self.nets.folder().join("before")).unwrap_or_default();
        let text = format!("{before}[hbh]\ninterfaces = [\"eth0\"]\n{more}");
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), Permissions::from_mode(0o600)).unwrap();
    }

    fn start(&mut self, more: &str) {
        self.start_with(more, "");
    }

    fn start_with(&mut self, more: &str, options: &str) {
        self.configure(more);
        let command = format!("{TRACKWAY} run {} {options}", self.file().display());
        self.program = Some(self.nets.start(&self.name.clone(), &command, "gateway ready"));
    }

    fn stop(&mut self) -> (Option<i32>, String) {
        self.nets.program(self.program.unwrap()).stop()
    }

    fn pid(&mut self) -> String {
        self.nets.program(self.program.unwrap()).pid().to_string()
    }

    /// The user that it is.
    fn user(&mut self) -> u32 {
        let is = state(&Path::new("/proc").join(self.pid()));
        is["Uid"].split('\t').next().unwrap().parse().unwrap()
    }

    fn printed(&self) -> String {
        self.nets.printed(self.program.unwrap())
    }

    /// Where its control socket is.
    fn socket(&self) -> PathBuf {
        let namespace = fs::metadata(Path::new("/run/netns").join(&self.name)).unwrap().ino();
        format!("/run/trackway/{namespace}/control.sock").into()
    }

    /// Runs `trackway` with arguments and returns its output and its error output.
    fn trackway(&self, args: &str) -> (String, String) {
        self.trackway_by("", TRACKWAY, args)
    }

    /// The same as another user, for whom the program may be out of reach.
    fn trackway_as(&self, user: u32, args: &str) -> (String, String) {
        let program = std::env::temp_dir().join(format!("{}-trackway", self.name));
        copy_program(&program);
        let setpriv =
            format!("env -u XDG_RUNTIME_DIR setpriv --reuid {user} --regid {user} --clear-groups");
        let said = self.trackway_by(&setpriv, program.to_str().unwrap(), args);
        fs::remove_file(program).unwrap();
        said
    }

    fn trackway_by(&self, by: &str, program: &str, args: &str) -> (String, String) {
        let output = self.nets.try_run(&self.name, &format!("{by} {program} {args}"));
        let [out, complaint] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (out, complaint)
    }
}

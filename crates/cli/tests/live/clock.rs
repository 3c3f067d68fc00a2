//! Sets the wall clock of a running gateway, as somebody or a time server does: everything goes on.
//!
//! The clock of one process is moved: a library between the process and the C library adds some seconds to each answer.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::namespaces::{Namespaces, SOON, is_installed, wait_until};
use crate::storm::{Bed, SERVICES};

/// Seconds.
pub const HOUR: i64 = 3_600;

/// The moved wall clock of a program.
pub struct Clock {
    moved_by: File,
    /// What the program must have in its environment.
    pub variables: String,
}

impl Clock {
    /// Without a C compiler there is none.
    pub fn new(nets: &Namespaces) -> Option<Self> {
        if !is_installed("cc", "gcc") {
            return None;
        }
        let [source, library, file] =
            ["clock.c", "clock.so", "moved-by"].map(|name| nets.folder().join(name));
        fs::write(&source, include_str!("clock.c")).unwrap();
        fs::write(&file, [0; 8]).unwrap();
        let (source, library) = (source.display(), library.display());
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o", &library.to_string(), &source.to_string(), "-ldl"])
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let moved_by = File::options().write(true).open(&file).unwrap();
        let variables = format!("LD_PRELOAD={library} CLOCK_MOVED_BY={}", file.display());
        Some(Self { moved_by, variables })
    }

    /// Moves the clock so many seconds from the true time.
    pub fn set(&self, seconds: i64) {
        self.moved_by.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn all_services_go_on_when_the_wall_clock_is_set_back_or_forward() {
    for service in SERVICES {
        let mut bed = Bed::new(service);
        let Some(clock) = Clock::new(&bed.nets) else { return };
        bed.restart_with(&clock.variables);
        let expect = |bed: &Bed, when: &str| {
            let works = wait_until(SOON, || (service.works)(bed));
            assert!(works, "{} {when}: {}", service.name, bed.status());
        };
        expect(&bed, "before");

        for moved in [-HOUR, HOUR, 0] {
            clock.set(moved);
            expect(&bed, &format!("moved by {moved} s"));
        }
        clock.set(-HOUR);
        bed.restart_with(&clock.variables);
        expect(&bed, "started an hour ago");
        let since = bed.status()["services"][0]["since"].as_i64().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(since < now.cast_signed() - HOUR / 2, "{since} {now}");
        clock.set(0);
        expect(&bed, "at the true time again");
        let services = bed.status()["services"].clone();
        assert_eq!(services[0]["restarts"], 0, "{services}");
    }
}

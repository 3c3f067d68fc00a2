//! Describes the holder of a TUN or TAP device that we cannot open.

use std::fs;
use std::path::Path;

/// `IFF_PERSIST`: the device stays when nobody holds it.
const PERSISTENT: u32 = 0x0800;

/// Describes the device, to follow its name in a sentence, as far as we may see.
pub(crate) fn said(device: &str) -> String {
    let of_device = |what| fs::read_to_string(format!("/sys/class/net/{device}/{what}"));
    let Ok(flags) = of_device("tun_flags") else { return ", no TUN device".to_owned() };
    let mut said = String::new();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or_default();
    if flags & PERSISTENT != 0 {
        said += ", made to stay";
        if let Some(owner) = of_device("owner").ok().filter(|owner| owner.trim() != "-1") {
            said += &format!(" for user {}", owner.trim());
        }
    }
    match process(device) {
        Some((pid, name)) => said += &format!(", held by process {pid} ({name})"),
        None => said += ", held by no process that we may look at",
    }
    said
}

/// The number and name of a process of this network namespace that holds the device.
fn process(device: &str) -> Option<(u32, String)> {
    let line = format!("iff:\t{device}");
    let here = fs::read_link("/proc/thread-self/ns/net").ok()?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let path = entry.path();
        let holds =
            fs::read_link(path.join("ns/net")).is_ok_and(|its| its == here) && holds(&path, &line);
        holds.then(|| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            (pid, name.trim().to_owned())
        })
    })
}

fn holds(process: &Path, line: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fdinfo")) else { return false };
    let has_line = |text: String| text.lines().any(|its| its == line);
    files.flatten().any(|file| fs::read_to_string(file.path()).is_ok_and(has_line))
}

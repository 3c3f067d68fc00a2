//! Filters the system calls of a gateway.
//!
//! ```text
//!   another architecture's, or newer than the list ─▶ ENOSYS, as on a kernel that has none of them
//!   clone with namespaces, sockets of other kinds, keystrokes for a terminal ─▶ refused by argument
//!   on the list                                    ─▶ EPERM
//!   all others                                     ─▶ allowed
//! ```
//! The filter lists refused calls, because the needed calls depend on the libc, on the kernel and on `nft`
//! with its libraries, which inherits the filter. docs/guide/gateway.md says how much the filter is worth.

use std::io;

use nix::libc;

use crate::sys::seccomp::{self, Scope, Step};

/// The machine as the kernel calls it (`linux/audit.h`); where it is unknown there is no filter.
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u32> = None;

/// Where `struct seccomp_data` has the number of the call, the machine, and the low halves of the
/// arguments of a machine that is little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST: u32 = 16;
const SECOND: u32 = 24;

/// The last call that the list below was made with, `mseal`: numbers beyond it are the same everywhere.
const NEWEST: u32 = 462;

/// Namespaces of a new process.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Families of the gateway's sockets; any other family would only expose unneeded code of the kernel.
const SOCKETS: [i32; 5] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];

/// Requests that write into a terminal as if somebody had typed.
const TYPED: [u32; 2] = [0x5412, 0x541c];

/// Refused system calls: a gateway needs none after its start, and many of these calls help attackers break out.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    #[cfg(not(target_arch = "arm"))]
    libc::SYS_migrate_pages,
    // Other users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // Other views of the machine.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_mknodat,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_syslog,
    libc::SYS_personality,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Programs that are no files.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_execveat,
];

/// More refused system calls on x86-64: other machines have none of these, or `libc` has no names for them there.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_mknod,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
/// `kexec_file_load` (`asm-generic/unistd.h`), which `libc` does not name for musl.
#[cfg(target_arch = "aarch64")]
const REFUSED_HERE: &[libc::c_long] = &[294];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Further system calls, refused to processes that only open files for others or keep a folder.
const REFUSED_TO_HELPERS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_clone,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_renameat2,
    libc::SYS_linkat,
];

/// Further system calls, refused to a process that only opens files.
const REFUSED_TO_READERS: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_unlinkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
];

/// Refuses system calls that the gateway's process and its children do not need.
///
/// # Errors
/// When the kernel or the machine has no such filters.
pub(crate) fn confine() -> io::Result<()> {
    install(&[], Scope::Process)
}

/// The same for a process that only opens files for others.
///
/// # Errors
/// As [`confine`].
pub(crate) fn confine_reader() -> io::Result<()> {
    install(&[REFUSED_TO_HELPERS, REFUSED_TO_READERS].concat(), Scope::Process)
}

/// The same for a process that only keeps a folder.
///
/// # Errors
/// As [`confine`].
pub(crate) fn confine_folder_keeper() -> io::Result<()> {
    install(REFUSED_TO_HELPERS, Scope::Process)
}

fn install(more: &[libc::c_long], scope: Scope) -> io::Result<()> {
    let machine = MACHINE.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    seccomp::install(&filter(machine, more), scope)
}

/// The filter, which also refuses `more`.
fn filter(machine: u32, more: &[libc::c_long]) -> Vec<Step> {
    let mut filter = vec![load(ARCHITECTURE)];
    filter.extend([when(libc::BPF_JEQ, machine, 1, 0), refuse(libc::ENOSYS)]);
    filter.push(load(NUMBER));
    filter.extend([when(libc::BPF_JGT, NEWEST, 0, 1), refuse(libc::ENOSYS)]);
    // Its flags are in memory, where no filter sees them: every libc does with `clone` then.
    filter.extend([is_not(libc::SYS_clone3, 1), refuse(libc::ENOSYS)]);
    for call in more.iter().chain(REFUSED).chain(REFUSED_HERE) {
        filter.extend([is_not(*call, 1), refuse(libc::EPERM)]);
    }
    filter.extend([is_not(libc::SYS_clone, 4), load(FIRST)]);
    filter.push(when(libc::BPF_JSET, NAMESPACES.cast_unsigned(), 0, 1));
    filter.extend([refuse(libc::EPERM), ALLOW]);
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        filter.extend([is_not(call, 8), load(FIRST)]);
        for (position, family) in (0..).zip(SOCKETS) {
            let rest: u8 = 5 - position;
            filter.push(when(libc::BPF_JEQ, family.cast_unsigned(), rest, 0));
        }
        filter.extend([refuse(libc::EAFNOSUPPORT), ALLOW]);
    }
    filter.extend([is_not(libc::SYS_ioctl, 4), load(SECOND)]);
    filter.extend([when(libc::BPF_JEQ, TYPED[0], 1, 0), when(libc::BPF_JEQ, TYPED[1], 0, 1)]);
    filter.extend([refuse(libc::EPERM), ALLOW]);
    filter
}

const ALLOW: Step = Step {
    code: libc::BPF_RET | libc::BPF_K,
    then: 0,
    otherwise: 0,
    value: libc::SECCOMP_RET_ALLOW,
};

fn load(offset: u32) -> Step {
    let code = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    Step { code, then: 0, otherwise: 0, value: offset }
}

/// Skips instructions by a comparison with what was loaded.
fn when(comparison: u32, value: u32, then: u8, otherwise: u8) -> Step {
    Step { code: libc::BPF_JMP | comparison | libc::BPF_K, then, otherwise, value }
}

/// Skips instructions if this is not the call.
fn is_not(call: libc::c_long, skipped: u8) -> Step {
    // A number out of range belongs to no system call.
    when(libc::BPF_JEQ, u32::try_from(call).unwrap_or(u32::MAX), 0, skipped)
}

fn refuse(error: i32) -> Step {
    let value = libc::SECCOMP_RET_ERRNO | error.cast_unsigned();
    Step { code: libc::BPF_RET | libc::BPF_K, then: 0, otherwise: 0, value }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::prctl;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    use nix::unistd::chroot;

    use super::*;

    /// The result of `look` in a confined thread; other threads of the tests stay free.
    fn confined<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(|| {
            prctl::set_no_new_privs().unwrap();
            install(&[], Scope::Thread).unwrap();
            look()
        });
        thread.join().unwrap()
    }

    #[test]
    fn what_breaks_out_of_a_process_is_refused() {
        let refused = confined(|| {
            let none = CloneFlags::empty();
            let memory = memfd_create(c"a", MFdFlags::empty()).map(drop);
            [unshare(none), chroot("/"), memory]
        });

        assert_eq!(refused, [Err(Errno::EPERM); 3]);
    }

    #[test]
    fn sockets_are_of_the_kinds_that_a_gateway_has() {
        let open = |family| socket(family, SockType::Datagram, SockFlag::empty(), None).map(drop);

        let (unix, vsock) =
            confined(move || (open(AddressFamily::Unix), open(AddressFamily::Vsock)));

        assert_eq!((unix, vsock), (Ok(()), Err(Errno::EAFNOSUPPORT)));
    }

    #[test]
    fn threads_and_programs_are_started_as_before() {
        let (thread, program) = confined(|| {
            let thread = thread::spawn(|| 7).join().unwrap();
            (thread, Command::new("sh").args(["-c", "echo a | cat"]).output().unwrap())
        });

        assert_eq!(thread, 7);
        assert_eq!((program.status.success(), &program.stdout[..]), (true, &b"a\n"[..]));
    }

    #[test]
    fn jumps_stay_within_the_filter_and_it_ends_with_an_answer() {
        let filter = filter(1, REFUSED_TO_READERS);

        for (position, step) in filter.iter().enumerate() {
            for skipped in [step.then, step.otherwise] {
                assert!(
                    position + 1 + usize::from(skipped) < filter.len() || step.code == ALLOW.code
                );
            }
        }
        assert_eq!(filter.last(), Some(&ALLOW));
    }
}

//! Installs a filter of system calls.

use std::io;

use nix::libc;

/// One instruction of a filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// What is done.
    pub code: u32,
    /// Instructions that are skipped if a comparison holds.
    pub then: u8,
    /// Instructions that are skipped if it does not.
    pub otherwise: u8,
    /// With what.
    pub value: u32,
}

/// Threads whose system calls are filtered; their children are filtered, too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
}

/// Puts a filter in force, for good. The thread needs `no_new_privs`.
///
/// # Errors
/// When the kernel has no such filters or refuses this one.
pub fn install(filter: &[Step], scope: Scope) -> io::Result<()> {
    let mut steps = Vec::with_capacity(filter.len());
    for Step { code, then, otherwise, value } in filter {
        let code = u16::try_from(*code).map_err(io::Error::other)?;
        steps.push(libc::sock_filter { code, jt: *then, jf: *otherwise, k: *value });
    }
    let len = u16::try_from(steps.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    let flags = match scope {
        Scope::Process => libc::SECCOMP_FILTER_FLAG_TSYNC,
        Scope::Thread => 0,
    };
    // SAFETY: `program` points at `len` instructions that live for the call; the kernel copies them.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const program,
        )
    };
    match outcome {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
    }
}

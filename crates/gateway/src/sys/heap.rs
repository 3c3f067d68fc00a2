//! Returns freed memory to the kernel.

/// Gives back what this process has freed and its allocator keeps. It takes milliseconds: call it when much has been freed.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and may be called at any time from any thread.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

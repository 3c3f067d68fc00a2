//! Returns freed memory to the kernel.

/// Gives freed memory, which the allocator keeps, back to the kernel. It takes milliseconds: call it when much has been
/// freed.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and may be called at any time from any thread.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

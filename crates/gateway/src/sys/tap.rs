//! A TAP or TUN device: `read` returns frames (TAP) or packets (TUN) that the kernel sends into it, and the
//! kernel takes frames or packets given to `write` as if the device had received them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;

/// Octets of the header before each frame, `struct virtio_net_hdr`.
const VNET_HEADER: usize = 10;

const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_TSO_ECN: libc::c_ulong = 0x08;
const TUN_F_USO4: libc::c_ulong = 0x20;
const TUN_F_USO6: libc::c_ulong = 0x40;

nix::ioctl_write_ptr_bad!(tun_set_iff, libc::TUNSETIFF, libc::ifreq);
nix::ioctl_read_bad!(tun_get_iff, libc::TUNGETIFF, libc::ifreq);
nix::ioctl_write_int_bad!(tun_set_offload, libc::TUNSETOFFLOAD);
nix::ioctl_write_ptr_bad!(tun_set_vnet_hdr_size, libc::TUNSETVNETHDRSZ, libc::c_int);

/// An open TAP or TUN device; dropping it removes the device.
#[derive(Debug)]
pub struct Tap {
    file: File,
    takes_datagram_trains: bool,
}

impl Tap {
    /// What makes devices.
    pub const PATH: &str = "/dev/net/tun";

    /// Makes the device `name`, with segmentation and checksums left to us where the kernel can.
    ///
    /// # Errors
    /// When there is no `/dev/net/tun`, no right to use it, or the name is taken.
    pub fn open(name: &str) -> io::Result<Self> {
        let tap = Self::open_kind(name, libc::IFF_TAP | libc::IFF_VNET_HDR)?;
        tap.prepare_trains()
    }

    /// Makes the device `name` for packets without Ethernet headers.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_tun(name: &str) -> io::Result<Self> {
        let tun = Self::open_kind(name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        tun.prepare_trains()
    }

    /// Makes the device `name` for single packets as they are, complete with checksums.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_plain_tun(name: &str) -> io::Result<Self> {
        Self::open_kind(name, libc::IFF_TUN)
    }

    /// Takes over a device made by [`Self::open_tun`], which another process has left open. Unread packets wait in the
    /// device.
    ///
    /// # Errors
    /// When the descriptor belongs to a device of another name or kind.
    pub fn adopt_tun(name: &str, descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        let mut found = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
        };
        // SAFETY: the descriptor is open and `found` is a whole `ifreq`, alive for the call.
        unsafe { tun_get_iff(file.as_raw_fd(), &raw mut found) }?;
        // SAFETY: the kernel has written this field, and any bits are a number.
        let flags = libc::c_int::from(unsafe { found.ifr_ifru.ifru_flags });
        let kind = libc::IFF_TUN | libc::IFF_VNET_HDR | libc::IFF_NO_PI;
        let asked = libc::IFF_TAP | kind;
        if found.ifr_name != interface_name(name)? || flags & asked != kind {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is another device"));
        }
        Self { file, takes_datagram_trains: false }.prepare_trains()
    }

    /// Another descriptor of the device, which then stays after `self` is closed.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    fn open_kind(name: &str, kind: libc::c_int) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(Self::PATH)?;

        // A device that is there already is another's, even if nobody holds it now.
        let flags = kind | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        let flags = u16::try_from(flags).map_err(io::Error::other)?.cast_signed();
        let request = libc::ifreq {
            ifr_name: interface_name(name)?,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
        };
        // SAFETY: the descriptor is open and `request` is a whole `ifreq`, alive for the call.
        unsafe { tun_set_iff(file.as_raw_fd(), &raw const request) }?;
        Ok(Self { file, takes_datagram_trains: false })
    }

    fn prepare_trains(mut self) -> io::Result<Self> {
        let file = &self.file;
        let size = libc::c_int::try_from(VNET_HEADER).map_err(io::Error::other)?;
        // SAFETY: as above; the kernel reads one `int` and keeps no pointer.
        unsafe { tun_set_vnet_hdr_size(file.as_raw_fd(), &raw const size) }?;
        self.takes_datagram_trains = set_offload(file)?;
        Ok(self)
    }

    /// Whether the kernel takes trains of UDP datagrams, as it takes trains of TCP segments.
    #[must_use]
    pub fn takes_datagram_trains(&self) -> bool {
        self.takes_datagram_trains
    }

    /// Reads one frame, or a train of segments still to be cut into frames, with its header;
    /// `None` when nothing waits.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(into) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a frame with its header to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(|_| ())
    }

    /// Hands a frame in parts, the first of them its header, to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn write_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(parts).map(|_| ())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Segmentation of UDP needs Linux 6.2; without it the kernel segments before it sends to us, and
/// takes no trains of datagrams. Returns whether it has it.
fn set_offload(file: &File) -> io::Result<bool> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    for (flags, has_udp) in [(tcp | TUN_F_USO4 | TUN_F_USO6, true), (tcp, false)] {
        let Ok(flags) = libc::c_int::try_from(flags) else { continue };
        // SAFETY: the argument is an integer, no memory is passed.
        if unsafe { tun_set_offload(file.as_raw_fd(), flags) }.is_ok() {
            return Ok(has_udp);
        }
    }
    Err(io::Error::last_os_error())
}

fn interface_name(name: &str) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let mut field = [0; libc::IFNAMSIZ];
    if name.len() >= field.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "interface name too long"));
    }
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(field)
}

//! Who may ask through the control socket.
//!
//! The socket's mode lets only the user of the process connect. The mode can be changed, so the peer's
//! user ID is checked as well (`SO_PEERCRED`).

use std::io;
use std::os::unix::net::UnixStream;

use rustix::process::{Uid, geteuid};

/// Returns `true` if the process at the other end belongs to the user of this one, or to root.
///
/// # Errors
///
/// The error of the kernel, if it does not tell.
#[cfg(target_os = "linux")]
pub(super) fn is_permitted(stream: &UnixStream) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(permits(geteuid(), peer.uid))
}

/// Returns `true`: the mode of the socket is the only check.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_permitted(_: &UnixStream) -> io::Result<bool> {
    Ok(permits(geteuid(), geteuid()))
}

fn permits(own: Uid, peer: Uid) -> bool {
    peer == own || peer.is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_not_permitted() {
        let [ann, bob] = [1_000, 1_001].map(Uid::from_raw);
        assert!(permits(ann, ann) && permits(ann, Uid::ROOT));
        assert!(!permits(ann, bob) && !permits(Uid::ROOT, ann));
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_permitted(&one).unwrap());
    }
}

//! Reads from a client's socket, with the time at which the kernel received the bytes.

use std::cell::RefCell;
use std::io;

use bytes::BytesMut;
use carnet_base::WallTime;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Maximum number of bytes of one read, which is charged to the budget afterwards.
const READ_LEN_MAX: usize = 64 << 10;

/// Bytes that were received from a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Number of bytes; zero after the client's end.
    pub(super) len: usize,
    /// Time at which the kernel received the last of them, where it tells.
    pub(super) stamp: Option<WallTime>,
    /// Whether more bytes may be left in the socket.
    pub(super) is_full: bool,
}

/// Reads available bytes, few enough to be charged afterwards. It can be cancelled without a loss.
pub(super) async fn receive(stream: &TcpStream, inbox: &mut BytesMut) -> io::Result<Received> {
    receive_with(stream, |bytes| {
        inbox.extend_from_slice(bytes);
        Ok(())
    })
    .await
}

/// Like [`receive`], but hands the bytes to `take`.
pub(super) async fn receive_with(
    stream: &TcpStream,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Received> {
    loop {
        stream.readable().await?;
        let mut received = None;
        let polled = stream.try_io(Interest::READABLE, || {
            let read = read(stream, &mut take)?;
            received = Some(read);
            // After a short read the socket is empty. The error tells the runtime to wait for the next bytes, which
            // saves a read without any.
            if read.len == 0 || read.is_full {
                Ok(())
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        });
        match (received, polled) {
            (Some(received), _) => return Ok(received),
            (None, Err(error)) if !is_temporary(&error) => return Err(error),
            _ => {}
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

thread_local! {
    /// Buffer of reads. A connection needs memory of its own only for bytes that have arrived.
    static BUFFER: RefCell<system::Buffer> = RefCell::new(system::Buffer::new(READ_LEN_MAX));
}

fn read(
    stream: &TcpStream,
    take: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Received> {
    BUFFER.with_borrow_mut(|buffer| {
        let (len, stamp) = system::read(stream, buffer)?;
        take(&buffer.bytes[..len])?;
        Ok(Received { len, stamp, is_full: len == READ_LEN_MAX })
    })
}

pub(crate) use system::request_stamps;

#[cfg(target_os = "linux")]
mod system {
    use std::io::{self, IoSliceMut};
    use std::os::fd::{AsFd, AsRawFd};

    use carnet_base::WallTime;
    use nix::cmsg_space;
    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
    };
    use nix::sys::time::TimeSpec;
    use tokio::net::TcpStream;

    pub(super) struct Buffer {
        pub(super) bytes: Vec<u8>,
        control: Vec<u8>,
    }

    impl Buffer {
        pub(super) fn new(len: usize) -> Self {
            Self { bytes: vec![0; len], control: cmsg_space!(TimeSpec) }
        }
    }

    /// Requests the arrival times of the bytes of all connections that a listener accepts.
    pub(crate) fn request_stamps(listener: &impl AsFd) -> io::Result<()> {
        Ok(setsockopt(listener, ReceiveTimestampns, &true)?)
    }

    /// Reads into the buffer. Returns the number of bytes, and the arrival time of the last of them where it is known.
    pub(super) fn read(
        stream: &TcpStream,
        buffer: &mut Buffer,
    ) -> io::Result<(usize, Option<WallTime>)> {
        let mut slices = [IoSliceMut::new(&mut buffer.bytes)];
        let control = Some(&mut buffer.control[..]);
        let message = recvmsg::<()>(stream.as_raw_fd(), &mut slices, control, MsgFlags::empty())?;
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(at) => Some(wall_time(at)),
                _ => None,
            })
        });
        Ok((message.bytes, stamp))
    }

    fn wall_time(at: TimeSpec) -> WallTime {
        WallTime(at.tv_sec().saturating_mul(1_000_000).saturating_add(at.tv_nsec() / 1_000))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use carnet_base::WallTime;
    use tokio::net::TcpStream;

    pub(super) struct Buffer {
        pub(super) bytes: Vec<u8>,
    }

    impl Buffer {
        pub(super) fn new(len: usize) -> Self {
            Self { bytes: vec![0; len] }
        }
    }

    /// Does nothing: the kernel does not tell when bytes arrived.
    #[expect(clippy::unnecessary_wraps, reason = "it can fail where there are stamps")]
    pub(crate) fn request_stamps<L>(_listener: &L) -> io::Result<()> {
        Ok(())
    }

    /// Reads into the buffer. Returns the number of bytes, and the arrival time of the last of them where it is known.
    pub(super) fn read(
        stream: &TcpStream,
        buffer: &mut Buffer,
    ) -> io::Result<(usize, Option<WallTime>)> {
        let len = stream.try_read(&mut buffer.bytes)?;
        Ok((len, None))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn connect() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        request_stamps(&listener).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn kernel_tells_when_bytes_arrived() {
        use std::time::Duration;

        use carnet_base::{Clock, SystemClock};

        #[expect(clippy::disallowed_methods, reason = "the test waits for the kernel")]
        let pause = std::thread::sleep;
        let (mut client, server) = connect().await;
        let mut inbox = BytesMut::new();
        // The kernel begins to stamp packets a moment after the first socket requests it.
        for _ in 0..10_000 {
            client.write_all(b"abc").await.unwrap();
            server.readable().await.unwrap();
            let before = SystemClock.wall();
            let received = receive(&server, &mut inbox).await.unwrap();
            assert_eq!(received.len, 3);
            if let Some(stamp) = received.stamp {
                assert!(inbox.ends_with(b"abc"));
                assert!(stamp < before, "{stamp:?} {before:?}");
                return;
            }
            pause(Duration::from_millis(1));
        }
        panic!("no stamp came");
    }

    #[tokio::test]
    async fn many_bytes_take_several_reads() {
        let (mut client, server) = connect().await;
        let sent: Vec<u8> = (0..3 * READ_LEN_MAX).map(|at| at.to_be_bytes()[6]).collect();
        let send = async {
            client.write_all(&sent).await.unwrap();
            drop(client);
        };
        let (mut inbox, mut reads) = (BytesMut::new(), 0);
        let read_all = async {
            while receive(&server, &mut inbox).await.unwrap().len > 0 {
                reads += 1;
            }
        };
        tokio::join!(send, read_all);
        assert!(reads >= 3, "{reads}");
        assert!(inbox == sent);
        assert_eq!(receive(&server, &mut inbox).await.unwrap().len, 0, "the end stays");
    }
}

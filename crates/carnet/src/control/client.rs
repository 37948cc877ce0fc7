//! Client side of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use carnet_base::{Error, Result};

use super::protocol::{ControlReply, ControlRequest, Done, LINE_BYTES_MAX, Progress};
use super::socket;

/// Sends a request to the process that has a directory open; `None` if none listens there.
///
/// # Errors
///
/// The error of that process; `Unavailable` if it goes away before it replies, or the caller has no
/// permission to connect.
pub(crate) fn ask(
    directory: &Path,
    request: &ControlRequest,
    mut tell: impl FnMut(&Progress),
) -> Result<Option<Done>> {
    let failed = |error: io::Error| {
        let path = directory.join(socket::NAME);
        Error::unavailable(format!("cannot send a request through {}", path.display()))
            .with_source(error)
    };
    let Some(mut stream) = socket::connect(directory).map_err(failed)? else { return Ok(None) };
    let line = request.encode()?;
    // A server that refuses the connection replies without reading the request, so a failed write
    // is no error yet.
    let sent = stream.write_all(&line);
    let mut answers = BufReader::new(stream);
    loop {
        match next(&mut answers) {
            Ok(Some(line)) => match ControlReply::decode(&line)? {
                ControlReply::Progress(progress) => tell(&progress),
                ControlReply::Done(done) => return Ok(Some(done)),
                ControlReply::Failed(error) => return Err(error),
            },
            Ok(None) => {
                sent.map_err(failed)?;
                return Err(Error::unavailable(format!(
                    "the process that had {} open exited before it replied; check whether the \
                     request was carried out, and repeat it if not",
                    directory.display()
                )));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Returns an error if the directory has another owner than this process, because its files would
/// get this process's owner, and the server could not open them any more.
pub(crate) fn refusal_of_owner(directory: &Path) -> Option<Error> {
    let (owner, ours) = (socket::owner(directory)?, rustix::process::geteuid().as_raw());
    (owner != ours).then(|| {
        Error::invalid(format!(
            "{} belongs to the user with id {owner} and this process runs as {ours}; its owner could not open \
             files that this process writes: run the command as that user, for example with `sudo -u '#{owner}'`, \
             or while the server of the database runs",
            directory.display()
        ))
    })
}

/// Reads a line; `None` at the end of the stream.
fn next(answers: &mut BufReader<UnixStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    answers.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= LINE_BYTES_MAX => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a reply is too long"))
        }
        _ => Ok(None),
    }
}

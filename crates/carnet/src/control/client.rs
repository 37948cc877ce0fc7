//! The side of whoever asks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use carnet_base::{Error, ErrorKind, Result};

use super::protocol::{Answer, Done, LINE_BYTES_MAX, Progress, Request};
use super::socket;
use crate::db::Builder;

/// Asks the process that has a directory open; `None` where none listens there.
///
/// # Errors
///
/// What that process says; `Unavailable` where it goes away before it has answered, or the
/// caller may not ask it.
pub fn ask(
    directory: &Path,
    request: &Request,
    mut tell: impl FnMut(&Progress),
) -> Result<Option<Done>> {
    let failed = |error: io::Error| {
        let path = directory.join(socket::NAME);
        Error::unavailable(format!("cannot ask through {}", path.display())).with_source(error)
    };
    let Some(mut stream) = socket::connect(directory).map_err(failed)? else { return Ok(None) };
    let line = request.encode()?;
    // One that is refused at once is answered before it was heard.
    let sent = stream.write_all(&line);
    let mut answers = BufReader::new(stream);
    loop {
        match next(&mut answers) {
            Ok(Some(line)) => match Answer::decode(&line)? {
                Answer::Progress(progress) => tell(&progress),
                Answer::Done(done) => return Ok(Some(done)),
                Answer::Failed(error) => return Err(error),
            },
            Ok(None) => {
                sent.map_err(failed)?;
                return Err(Error::unavailable(format!(
                    "the process that had {} open went away before it answered: see whether it \
                     was done, and ask again",
                    directory.display()
                )));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Carries a request out: opens the directory for it, or asks the process that has it open.
///
/// # Errors
///
/// As [`Builder::open`] and [`ask`]. Where a process has the directory and listens to nobody, the
/// error says what to do about it.
pub fn carry_out(
    builder: Builder,
    directory: &Path,
    request: &Request,
    mut tell: impl FnMut(&Progress),
) -> Result<Done> {
    let in_use = match builder.open(directory) {
        Ok(db) => {
            let done = db.carry_out(request, &mut |progress| {
                tell(progress);
                Ok(())
            })?;
            db.close()?;
            return Ok(done);
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => error,
        Err(error) => return Err(error),
    };
    ask(directory, request, tell)?.ok_or_else(|| {
        Error::unavailable(format!(
            "{in_use}; nor can that process be asked, it has no control socket: `carnet serve` \
             and `carnet stress` make one, and so does a program that opens the database with \
             Builder::control"
        ))
    })
}

/// Reads a line; `None` at the end.
fn next(answers: &mut BufReader<UnixStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    answers.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= LINE_BYTES_MAX => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that does not end"))
        }
        _ => Ok(None),
    }
}

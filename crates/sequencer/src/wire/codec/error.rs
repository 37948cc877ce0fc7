//! Encoding of errors: the kind, the message, and the messages of the causes.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use carnet_base::{CellHash, Error, ErrorKind};

use super::fields::Fields;
use super::malformed::Malformed;

/// Length at which a message is truncated.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Number of causes after which the rest are dropped.
const CAUSES_MAX: u8 = 8;

const CONFLICT: u8 = 1;
const UNKNOWN: u8 = 2;
const TOO_OLD: u8 = 3;
const OVERLOADED: u8 = 4;
const TIMEOUT: u8 = 5;
const INVALID: u8 = 6;
const ALREADY_EXISTS: u8 = 7;
const UNSUPPORTED: u8 = 8;
const ABORTED: u8 = 9;
const UNAVAILABLE: u8 = 10;
const CORRUPTED: u8 = 11;

pub(super) fn put(error: &Error, out: &mut BytesMut) {
    put_kind(error, out);
    put_text(error.message(), out);
    let mut causes: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause
        && causes.len() < usize::from(CAUSES_MAX)
    {
        causes.push(match error.downcast_ref::<Error>() {
            Some(error) => error.message().to_owned(),
            None => error.to_string(),
        });
        cause = error.source();
    }
    out.put_u8(u8::try_from(causes.len()).unwrap_or(CAUSES_MAX));
    for cause in causes {
        put_text(&cause, out);
    }
}

fn put_kind(error: &Error, out: &mut BytesMut) {
    let kind = error.kind();
    out.put_u8(match kind {
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Unknown { .. } => UNKNOWN,
        ErrorKind::TooOld => TOO_OLD,
        ErrorKind::Overloaded { .. } => OVERLOADED,
        ErrorKind::Timeout => TIMEOUT,
        ErrorKind::Invalid => INVALID,
        ErrorKind::AlreadyExists => ALREADY_EXISTS,
        ErrorKind::Unsupported => UNSUPPORTED,
        ErrorKind::Aborted => ABORTED,
        ErrorKind::Corrupted => CORRUPTED,
        // `Unavailable`, and any kind that this version has no number for: it promises nothing.
        _ => UNAVAILABLE,
    });
    match kind {
        ErrorKind::Conflict => out.put_u64(error.lost_cell().map_or(0, |cell| cell.0)),
        ErrorKind::Unknown { start } => out.put_u64(start.get()),
        ErrorKind::Overloaded { retry_after } => {
            out.put_u64(u64::try_from(retry_after.as_micros()).unwrap_or(u64::MAX));
        }
        _ => {}
    }
}

fn put_text(text: &str, out: &mut BytesMut) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    out.put_u32(u32::try_from(text.len()).expect("a text is cut off at 4 KiB"));
    out.put_slice(text.as_bytes());
}

pub(super) fn take(fields: &mut Fields) -> Result<Error, Malformed> {
    let kind = take_kind(fields)?;
    let lost_cell = if kind == ErrorKind::Conflict { fields.u64()? } else { 0 };
    let error = Error::new(kind, fields.text(TEXT_BYTES_MAX)?);
    let error = if lost_cell == 0 { error } else { error.with_lost_cell(CellHash(lost_cell)) };
    let count = fields.u8()?;
    if count > CAUSES_MAX {
        return Err(Malformed("an error of too many causes"));
    }
    let mut causes = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        causes.push(fields.text(TEXT_BYTES_MAX)?);
    }
    let told = causes
        .into_iter()
        .rev()
        .fold(None, |cause: Option<Box<Cause>>, message| Some(Box::new(Cause { message, cause })));
    Ok(match told {
        Some(cause) => error.with_source(cause as Box<dyn StdError + Send + Sync>),
        None => error,
    })
}

fn take_kind(fields: &mut Fields) -> Result<ErrorKind, Malformed> {
    Ok(match fields.u8()? {
        CONFLICT => ErrorKind::Conflict,
        UNKNOWN => ErrorKind::Unknown { start: fields.timestamp()? },
        TOO_OLD => ErrorKind::TooOld,
        OVERLOADED => ErrorKind::Overloaded { retry_after: Duration::from_micros(fields.u64()?) },
        TIMEOUT => ErrorKind::Timeout,
        INVALID => ErrorKind::Invalid,
        ALREADY_EXISTS => ErrorKind::AlreadyExists,
        UNSUPPORTED => ErrorKind::Unsupported,
        ABORTED => ErrorKind::Aborted,
        UNAVAILABLE => ErrorKind::Unavailable,
        CORRUPTED => ErrorKind::Corrupted,
        _ => return Err(Malformed("an error of an unknown kind")),
    })
}

/// A cause that another process reported.
#[derive(Debug)]
struct Cause {
    message: String,
    cause: Option<Box<Self>>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

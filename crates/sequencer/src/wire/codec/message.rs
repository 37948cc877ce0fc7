//! Encoding of requests and responses.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::{CellHash, Timestamp};
use carnet_store::{BeginKind, Outcome};

use super::fields::Fields;
use super::frame::Message;
use super::malformed::Malformed;
use super::{claim, error};
use crate::message::{Changes, ClientId, LeaderRequest, Members, Released, Response, Token};

const BEGIN: u8 = 0x01;
const END: u8 = 0x02;
const COMMIT: u8 = 0x03;
const OUTCOME: u8 = 0x04;
const ALIVE: u8 = 0x05;
const ANNOUNCE: u8 = 0x06;
const FORWARD: u8 = 0x07;
const ABORT: u8 = 0x08;

const RELEASED: u8 = 0x81;
const COMMITTED: u8 = 0x82;
const OUTCOME_IS: u8 = 0x83;
const DONE: u8 = 0x84;
const REFUSED: u8 = 0x85;
const NOT_LEADING: u8 = 0x86;
const MEMBERS: u8 = 0x87;
const FORWARDED: u8 = 0x88;

const READ_ONLY: u8 = 0;
const READ_ONLY_AT: u8 = 1;
const READ_WRITE: u8 = 2;

const UNKNOWN: u8 = 0;
const CELLS: u8 = 1;
/// Length of a cell's hash and a commit.
const CHANGE_BYTES: usize = 16;

const IS_COMMITTED: u8 = 0;
const IS_ABORTED: u8 = 1;
const IS_PENDING: u8 = 2;

pub(super) const fn kind_of_request(request: &LeaderRequest) -> u8 {
    match request {
        LeaderRequest::Begin { .. } => BEGIN,
        LeaderRequest::End { .. } => END,
        LeaderRequest::Commit { .. } => COMMIT,
        LeaderRequest::Outcome { .. } => OUTCOME,
        LeaderRequest::Alive { .. } => ALIVE,
        LeaderRequest::Announce { .. } => ANNOUNCE,
        LeaderRequest::Forward { .. } => FORWARD,
        LeaderRequest::Abort { .. } => ABORT,
    }
}

pub(super) fn put_request(request: &LeaderRequest, out: &mut BytesMut) {
    match request {
        LeaderRequest::Begin { client, token, kind, is_strict, known } => {
            put_snapshot(*client, *token, out);
            put_begin_kind(*kind, out);
            out.put_u8(u8::from(*is_strict));
            put_perhaps(*known, out);
        }
        LeaderRequest::End { client, token } => put_snapshot(*client, *token, out),
        LeaderRequest::Commit { client, token, claim } => {
            put_snapshot(*client, *token, out);
            claim::put(claim, out);
        }
        LeaderRequest::Outcome { start } | LeaderRequest::Abort { start } => {
            out.put_u64(start.get());
        }
        LeaderRequest::Alive { client, oldest } => put_snapshot(*client, *oldest, out),
        LeaderRequest::Announce { client, what } => {
            out.put_u64(client.0);
            put_bytes(what, out);
        }
        LeaderRequest::Forward { what } => out.put_slice(what),
    }
}

fn put_snapshot(client: ClientId, token: Token, out: &mut BytesMut) {
    out.put_u64(client.0);
    out.put_u64(token.0);
}

fn put_begin_kind(kind: BeginKind, out: &mut BytesMut) {
    match kind {
        BeginKind::ReadOnly => out.put_u8(READ_ONLY),
        BeginKind::ReadOnlyAt(read) => {
            out.put_u8(READ_ONLY_AT);
            out.put_u64(read.get());
        }
        BeginKind::ReadWrite => out.put_u8(READ_WRITE),
    }
}

pub(super) const fn kind_of_response(response: &Response) -> u8 {
    match response {
        Response::Released(..) => RELEASED,
        Response::Committed(_) => COMMITTED,
        Response::Outcome(_) => OUTCOME_IS,
        Response::Done => DONE,
        Response::Refused(_) => REFUSED,
        Response::NotLeading => NOT_LEADING,
        Response::Members(_) => MEMBERS,
        Response::Forwarded(_) => FORWARDED,
    }
}

pub(super) fn put_response(response: &Response, out: &mut BytesMut) {
    match response {
        Response::Released(Released { read, start, epoch_first, schema }, changes) => {
            out.put_u64(read.get());
            out.put_u64(epoch_first.get());
            out.put_u64(schema.get());
            put_perhaps(*start, out);
            put_changes(changes, out);
        }
        Response::Committed(commit) => out.put_u64(commit.get()),
        Response::Outcome(Outcome::Committed(commit)) => {
            out.put_u8(IS_COMMITTED);
            out.put_u64(commit.get());
        }
        Response::Outcome(Outcome::Aborted) => out.put_u8(IS_ABORTED),
        Response::Outcome(Outcome::Pending) => out.put_u8(IS_PENDING),
        Response::Refused(refused) => error::put(refused, out),
        Response::Members(members) => put_members(members, out),
        Response::Forwarded(what) => out.put_slice(what),
        Response::Done | Response::NotLeading => {}
    }
}

fn put_members(members: &Members, out: &mut BytesMut) {
    let Members { is_complete, all } = members;
    out.put_u8(u8::from(*is_complete));
    out.put_u32(
        u32::try_from(all.len()).expect("a leader accepts at most a thousand announcements"),
    );
    all.iter().for_each(|what| put_bytes(what, out));
}

fn put_bytes(bytes: &Bytes, out: &mut BytesMut) {
    out.put_u32(u32::try_from(bytes.len()).expect("an announcement has at most a kilobyte"));
    out.put_slice(bytes);
}

fn put_perhaps(timestamp: Option<Timestamp>, out: &mut BytesMut) {
    out.put_u8(u8::from(timestamp.is_some()));
    if let Some(timestamp) = timestamp {
        out.put_u64(timestamp.get());
    }
}

fn put_changes(changes: &Changes, out: &mut BytesMut) {
    let Changes::Cells(cells) = changes else { return out.put_u8(UNKNOWN) };
    out.put_u8(CELLS);
    out.put_u32(u32::try_from(cells.len()).expect("an answer has a few thousand changes at most"));
    for (cell, commit) in cells {
        out.put_u64(cell.0);
        out.put_u64(commit.get());
    }
}

pub(super) fn take(kind: u8, fields: &mut Fields) -> Result<Message, Malformed> {
    Ok(match kind {
        BEGIN => {
            let ((client, token), kind) = (take_snapshot(fields)?, take_begin_kind(fields)?);
            let (is_strict, known) = (fields.truth()?, take_perhaps(fields)?);
            Message::LeaderRequest(LeaderRequest::Begin { client, token, kind, is_strict, known })
        }
        END => {
            let (client, token) = take_snapshot(fields)?;
            Message::LeaderRequest(LeaderRequest::End { client, token })
        }
        COMMIT => {
            let (client, token) = take_snapshot(fields)?;
            Message::LeaderRequest(LeaderRequest::Commit {
                client,
                token,
                claim: claim::take(fields)?,
            })
        }
        OUTCOME => Message::LeaderRequest(LeaderRequest::Outcome { start: fields.timestamp()? }),
        ABORT => Message::LeaderRequest(LeaderRequest::Abort { start: fields.timestamp()? }),
        ALIVE => {
            let (client, oldest) = take_snapshot(fields)?;
            Message::LeaderRequest(LeaderRequest::Alive { client, oldest })
        }
        ANNOUNCE => {
            let (client, what) = (ClientId(fields.u64()?), fields.bytes()?);
            Message::LeaderRequest(LeaderRequest::Announce { client, what })
        }
        FORWARD => Message::LeaderRequest(LeaderRequest::Forward { what: fields.rest() }),
        RELEASED => {
            let (released, changes) = (take_released(fields)?, take_changes(fields)?);
            Message::Response(Response::Released(released, changes))
        }
        COMMITTED => Message::Response(Response::Committed(fields.timestamp()?)),
        OUTCOME_IS => Message::Response(Response::Outcome(take_outcome(fields)?)),
        DONE => Message::Response(Response::Done),
        REFUSED => Message::Response(Response::Refused(error::take(fields)?)),
        NOT_LEADING => Message::Response(Response::NotLeading),
        MEMBERS => Message::Response(Response::Members(take_members(fields)?)),
        FORWARDED => Message::Response(Response::Forwarded(fields.rest())),
        _ => return Err(Malformed("a frame of an unknown kind")),
    })
}

fn take_snapshot(fields: &mut Fields) -> Result<(ClientId, Token), Malformed> {
    Ok((ClientId(fields.u64()?), Token(fields.u64()?)))
}

fn take_begin_kind(fields: &mut Fields) -> Result<BeginKind, Malformed> {
    Ok(match fields.u8()? {
        READ_ONLY => BeginKind::ReadOnly,
        READ_ONLY_AT => BeginKind::ReadOnlyAt(fields.timestamp()?),
        READ_WRITE => BeginKind::ReadWrite,
        _ => return Err(Malformed("a begin of an unknown kind")),
    })
}

fn take_released(fields: &mut Fields) -> Result<Released, Malformed> {
    let (read, epoch_first) = (fields.timestamp()?, fields.timestamp()?);
    let schema = fields.timestamp()?;
    let start = take_perhaps(fields)?;
    Ok(Released { read, start, epoch_first, schema })
}

fn take_perhaps(fields: &mut Fields) -> Result<Option<Timestamp>, Malformed> {
    Ok(if fields.truth()? { Some(fields.timestamp()?) } else { None })
}

fn take_changes(fields: &mut Fields) -> Result<Changes, Malformed> {
    match fields.u8()? {
        UNKNOWN => Ok(Changes::Unknown),
        CELLS => {
            let count = fields.count(CHANGE_BYTES)?;
            let mut cells = Vec::with_capacity(count);
            for _ in 0..count {
                cells.push((CellHash(fields.u64()?), fields.timestamp()?));
            }
            Ok(Changes::Cells(cells))
        }
        _ => Err(Malformed("changes of an unknown kind")),
    }
}

fn take_members(fields: &mut Fields) -> Result<Members, Malformed> {
    let (is_complete, count) = (fields.truth()?, fields.count(size_of::<u32>())?);
    let all = (0..count).map(|_| fields.bytes()).collect::<Result<_, _>>()?;
    Ok(Members { is_complete, all })
}

fn take_outcome(fields: &mut Fields) -> Result<Outcome, Malformed> {
    Ok(match fields.u8()? {
        IS_COMMITTED => Outcome::Committed(fields.timestamp()?),
        IS_ABORTED => Outcome::Aborted,
        IS_PENDING => Outcome::Pending,
        _ => return Err(Malformed("an outcome of an unknown kind")),
    })
}

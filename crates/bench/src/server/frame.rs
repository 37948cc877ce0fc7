//! Requests of the native protocol, version 4, and the parts of responses that clients use.

use std::io;

const VERSION: u8 = 4;
const EXECUTE: u8 = 0x0a;
const BATCH: u8 = 0x0d;
const ERROR: u8 = 0x00;
/// Consistency level ONE.
const CONSISTENCY: [u8; 2] = [0, 1];
/// Flags of a query: values, no column descriptions, a page size, a paging state.
const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const PAGE_SIZE: u8 = 0x04;
const PAGING_STATE: u8 = 0x08;
/// Kind of a result with rows, and the flag of a result with further pages.
const ROWS: i32 = 2;
const MORE_PAGES: i32 = 0x02;
/// Length of a frame's header.
pub(super) const HEADER_LEN: usize = 9;
/// Maximum length of a response.
const BODY_MAX: usize = 64 << 20;

/// Options of the execution of a prepared statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options<'o> {
    pub(super) skip_metadata: bool,
    pub(super) page_rows: Option<i32>,
    pub(super) paging_state: Option<&'o [u8]>,
}

/// Appends a frame that executes a prepared statement.
pub(super) fn put_execute(
    out: &mut Vec<u8>,
    stream: u16,
    id: &[u8],
    values: &[&[u8]],
    options: Options<'_>,
) {
    let begun = begin(out, stream, EXECUTE);
    put_short_bytes(out, id);
    out.extend(CONSISTENCY);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(
        VALUES
            | flag(options.skip_metadata, SKIP_METADATA)
            | flag(options.page_rows.is_some(), PAGE_SIZE)
            | flag(options.paging_state.is_some(), PAGING_STATE),
    );
    put_values(out, values);
    out.extend(options.page_rows.into_iter().flat_map(i32::to_be_bytes));
    if let Some(state) = options.paging_state {
        put_bytes(out, state);
    }
    end(out, begun);
}

/// Appends a frame that executes a prepared statement several times, as an unlogged batch.
pub(super) fn put_batch(out: &mut Vec<u8>, stream: u16, id: &[u8], items: &[[&[u8]; 2]]) {
    let begun = begin(out, stream, BATCH);
    out.push(1);
    put_short(out, items.len());
    for values in items {
        out.push(1);
        put_short_bytes(out, id);
        put_values(out, values);
    }
    out.extend(CONSISTENCY);
    out.push(0);
    end(out, begun);
}

/// Appends a header, and returns its position.
fn begin(out: &mut Vec<u8>, stream: u16, opcode: u8) -> usize {
    let begun = out.len();
    out.extend([VERSION, 0]);
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend([0; 4]);
    begun
}

/// Fills in the length of the frame that begins at a position.
fn end(out: &mut [u8], begun: usize) {
    let len = u32::try_from(out.len() - begun - HEADER_LEN).expect("a request is short");
    out[begun + 5..begun + HEADER_LEN].copy_from_slice(&len.to_be_bytes());
}

fn put_short(out: &mut Vec<u8>, number: usize) {
    out.extend(u16::try_from(number).expect("a request is short").to_be_bytes());
}

fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_short(out, bytes.len());
    out.extend(bytes);
}

fn put_values(out: &mut Vec<u8>, values: &[&[u8]]) {
    put_short(out, values.len());
    values.iter().for_each(|value| put_bytes(out, value));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("a value is short").to_be_bytes());
    out.extend(bytes);
}

/// A response frame.
pub(super) struct Response<'r> {
    pub(super) stream: usize,
    /// Length of the frame.
    pub(super) len: usize,
    pub(super) is_error: bool,
    body: &'r [u8],
}

impl<'r> Response<'r> {
    /// Returns the first frame of the bytes; `None` if they end within it.
    pub(super) fn first(bytes: &'r [u8]) -> io::Result<Option<Self>> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let len = usize::try_from(len).ok().filter(|len| *len <= BODY_MAX);
        let len = HEADER_LEN + len.ok_or_else(|| io::Error::other("a response is too long"))?;
        Ok(bytes.get(HEADER_LEN..len).map(|body| Self {
            stream: usize::from(u16::from_be_bytes([header[2], header[3]])),
            len,
            is_error: header[4] == ERROR,
            body,
        }))
    }

    /// Returns the message of an error.
    pub(super) fn message(&self) -> String {
        String::from_utf8_lossy(self.body.get(6..).unwrap_or_default()).into_owned()
    }

    /// Returns the position of the next page of a result.
    pub(super) fn paging_state(&self) -> Option<&'r [u8]> {
        let int = |at: usize| self.body.get(at..)?.first_chunk().map(|it| i32::from_be_bytes(*it));
        if int(0)? != ROWS || int(4)? & MORE_PAGES == 0 {
            return None;
        }
        let len = usize::try_from(int(12)?).ok()?;
        self.body.get(16..16 + len)
    }
}

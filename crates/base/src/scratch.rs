//! A buffer that each thread keeps, for short bytes whose length is known only once they are there.
//!
//! Bytes that are kept should take memory of their own length: `BytesMut::freeze` with room to
//! spare allocates a second time for its bookkeeping, and both pieces live as long as the bytes.

use std::cell::Cell;

use bytes::BytesMut;

/// What a kept buffer may take for good.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Option<BytesMut>> = const { Cell::new(None) };
}

/// Takes the thread's buffer, empty.
pub(crate) fn take() -> BytesMut {
    let mut buffer = KEPT.take().unwrap_or_else(|| BytesMut::with_capacity(256));
    buffer.clear();
    buffer
}

/// Gives a buffer back to the thread.
pub(crate) fn give(buffer: BytesMut) {
    if buffer.capacity() <= KEPT_BYTES_MAX {
        KEPT.set(Some(buffer));
    }
}

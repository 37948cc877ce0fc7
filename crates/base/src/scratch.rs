//! A buffer that each thread keeps, for building short byte strings of unknown length, which are
//! then copied to their final place.

use std::cell::Cell;

use bytes::BytesMut;

/// Maximum capacity of a kept buffer.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Option<BytesMut>> = const { Cell::new(None) };
}

/// Takes the thread's buffer, empty.
pub(crate) fn take() -> BytesMut {
    // A thread that ends keeps no buffer.
    let kept = KEPT.try_with(Cell::take).ok().flatten();
    let mut buffer = kept.unwrap_or_else(|| BytesMut::with_capacity(256));
    buffer.clear();
    buffer
}

/// Gives a buffer back to the thread.
pub(crate) fn give(buffer: BytesMut) {
    if buffer.capacity() <= KEPT_BYTES_MAX {
        let _ = KEPT.try_with(|kept| kept.set(Some(buffer)));
    }
}

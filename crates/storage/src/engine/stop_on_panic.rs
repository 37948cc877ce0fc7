//! Guard that stops the store when its holder panics.

use super::publication::Publication;

/// Stops the store when dropped by a panic; on success it is forgotten with `mem::forget`.
pub(super) struct StopOnPanic<'a>(pub(super) &'a Publication, pub(super) &'static str);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop(self.1);
    }
}

//! The object-safe trait of backups of clusters of any type.

use carnet_base::{Call, Timestamp};
use carnet_sequencer::backup::Label;

/// Object-safe variant of [`Backup`](carnet_sequencer::backup::Backup).
pub(crate) trait AnyBackup: Send + Sync {
    fn commit(&self) -> Timestamp;
    fn renew(&self) -> Call<'_, ()>;
    fn finish(self: Box<Self>, store: &str) -> Call<'_, Label>;
    fn give_up(self: Box<Self>) -> Call<'static, ()>;
}

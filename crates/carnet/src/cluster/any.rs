//! The object-safe trait of backups of clusters of any type.

use std::future::Future;
use std::pin::Pin;

use carnet_base::{Result, Timestamp};
use carnet_sequencer::backup::Label;

/// A boxed call in progress.
pub(super) type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Object-safe variant of [`Backup`](carnet_sequencer::backup::Backup).
pub(crate) trait AnyBackup: Send + Sync {
    fn commit(&self) -> Timestamp;
    fn renew(&self) -> Call<'_, Result<()>>;
    fn finish(self: Box<Self>, store: &str) -> Call<'_, Result<Label>>;
    fn give_up(self: Box<Self>) -> Call<'static, ()>;
}

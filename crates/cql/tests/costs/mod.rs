//! Parts of the test of costs.

pub(crate) mod client;
pub(crate) mod seeds;
pub(crate) mod statements;
pub(crate) mod tables;

use std::sync::{LazyLock, Mutex, MutexGuard};

use carnet_base::lock;
use client::Client;
use peak_alloc::PeakAlloc;

#[global_allocator]
pub(crate) static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Returns a client. The allocator counts for the whole process, so that tests run one at a time; the
/// tables are filled once.
pub(crate) fn client() -> MutexGuard<'static, Client> {
    static CLIENT: LazyLock<Mutex<Client>> = LazyLock::new(|| Mutex::new(Client::new()));
    lock(&CLIENT)
}

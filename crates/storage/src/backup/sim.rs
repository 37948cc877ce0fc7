//! Simulated vault in memory, with power failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet_base::{Error, Result, Rng};

use super::Vault;
use crate::disk::sim::SimDisk;
use crate::disk::{DirectoryLock, Disk};
use crate::marks::UNFINISHED;
use crate::sync::{Mutex, lock};

/// A vault of simulated disks. Clones share it.
///
/// Names of directories are durable at once; their contents only after a sync.
#[derive(Clone)]
pub struct SimVault(Arc<BackupState>);

struct BackupState {
    root: SimDisk,
    disks: Mutex<BTreeMap<String, SimDisk>>,
}

impl SimVault {
    /// Makes an empty vault.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::of(seed, BTreeMap::new())
    }

    fn of(seed: u64, disks: BTreeMap<String, SimDisk>) -> Self {
        Self(Arc::new(BackupState { root: SimDisk::new(seed), disks: Mutex::new(disks) }))
    }

    /// Returns the disk of a directory.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<SimDisk> {
        lock(&self.0.disks).get(name).cloned()
    }

    /// Returns one of the vaults that a power failure could leave.
    #[must_use]
    pub fn crash(&self, rng: &mut dyn Rng) -> Self {
        let disks = lock(&self.0.disks);
        let crashed = disks.iter().map(|(name, disk)| (name.clone(), disk.crash(rng))).collect();
        Self::of(rng.next_u64(), crashed)
    }

    /// Returns the vault as the next process finds it after this one was killed.
    #[must_use]
    pub fn kill(&self) -> Self {
        let disks = lock(&self.0.disks);
        Self::of(0, disks.iter().map(|(name, disk)| (name.clone(), disk.kill())).collect())
    }
}

impl Vault for SimVault {
    fn lock(&self) -> Result<DirectoryLock> {
        self.0.root.lock()
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(lock(&self.0.disks).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>> {
        let mut disks = lock(&self.0.disks);
        let seed = disks.len() as u64;
        Ok(Arc::new(disks.entry(name.to_owned()).or_insert_with(|| SimDisk::new(seed)).clone()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut disks = lock(&self.0.disks);
        let left = disks.get(name).map(Disk::list).transpose();
        match left {
            Ok(left) if left.iter().flatten().all(|name| name == UNFINISHED) => {
                disks.remove(name);
                Ok(())
            }
            _ => Err(Error::unavailable(format!("cannot remove {name}: it is not empty"))),
        }
    }
}

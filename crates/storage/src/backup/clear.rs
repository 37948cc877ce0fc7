//! Removes the files of a database or a backup.

use carnet_base::Result;

use crate::disk::{Disk, During};
use crate::engine::checkpoint;
use crate::marks::{BACKUP, CHECKPOINT};

/// Removes all files of a database or a backup, finished or not, and no other files.
pub(super) fn clear(disk: &dyn Disk) -> Result<()> {
    for name in disk.list().during("list", disk, "")? {
        if checkpoint::is_ours(&name) || name == CHECKPOINT || is_part_of_label(&name) {
            disk.remove(&name).during("remove", disk, &name)?;
        }
    }
    disk.sync_dir().during("sync", disk, "")
}

fn is_part_of_label(name: &str) -> bool {
    name.strip_suffix(".tmp").unwrap_or(name) == BACKUP
}

//! The newest earlier backup, whose tables the next one shares.

use std::sync::Arc;

use carnet_base::Result;

use super::label::{Label, LabelledFile};
use super::name::name_of;
use super::vault::Vault;
use crate::disk::{Disk, During};
use crate::engine::checkpoint::same_table;
use crate::inspect;
use crate::manifest::{Manifest, TableMeta};
use crate::sstable;

/// The newest earlier backup.
pub(super) struct Earlier {
    disk: Arc<dyn Disk>,
    pub(super) label: Label,
    manifest: Manifest,
}

impl Earlier {
    /// Opens it; `None` if it is damaged, and then all files are copied.
    pub(super) fn open(vault: &dyn Vault, label: &Label) -> Option<Self> {
        let opened = vault.open(&name_of(label.commit)).and_then(|disk| {
            let manifest = inspect::load(&*disk)?;
            Ok(Self { disk, label: label.clone(), manifest })
        });
        opened.inspect_err(|error| tracing::warn!(%error, "an earlier backup is damaged")).ok()
    }

    /// Links a table from the earlier backup, if it has the same table.
    pub(super) fn give(
        &self,
        table: &TableMeta,
        from: &dyn Disk,
        to: &dyn Disk,
    ) -> Result<Option<LabelledFile>> {
        let name = sstable::file_name(table.number);
        let (Some(known), Some(file)) =
            (self.manifest.levels.find(table.number), self.label.file(&name))
        else {
            return Ok(None);
        };
        // A damaged table is copied again.
        let is_same = same_table(from, table, &*self.disk, known).unwrap_or_else(|error| {
            tracing::warn!(%error, "an earlier backup is damaged");
            false
        });
        if !is_same {
            return Ok(None);
        }
        self.disk.link(&name, to).during("link or copy", to, &name)?;
        Ok(Some(file.clone()))
    }
}

//! Partial copies of a cluster in memory, like copies made by its operators' tools.

use carnet_base::{Bytes, CellKey};

use super::part::Part;
use super::{MemoryCluster, Row, Stored};
use crate::cluster::commit_rows::{CommitRow, CommitRows, EntryPage, RowAnswer};
use crate::cluster::fault::Faulty;
use crate::cluster::restored::{Overwrite, RestoredRows};

impl MemoryCluster {
    /// Replaces a part of this cluster by that of another, as it is now.
    pub fn copy_part(&self, from: &Self, part: Part) {
        // Lock one after the other: two clusters that copy each other must not deadlock.
        match part {
            Part::Cells(table) => {
                let of_table = |key: &CellKey| key.table() == table;
                let source = from.lock();
                let cells: Vec<_> = source
                    .cells
                    .iter()
                    .filter(|(key, _)| of_table(key))
                    .map(|(key, versions)| {
                        let copies = versions.iter().map(|(start, stored)| (*start, stored.copy()));
                        (key.clone(), copies.collect())
                    })
                    .collect();
                let floors: Vec<_> = source
                    .floors
                    .iter()
                    .filter(|(key, _)| of_table(key))
                    .map(|(key, floor)| (key.clone(), *floor))
                    .collect();
                drop(source);
                let mut state = self.lock();
                state.cells.retain(|key, _| !of_table(key));
                state.floors.retain(|key, _| !of_table(key));
                state.cells.extend(cells);
                state.floors.extend(floors);
            }
            Part::Commits(table) => {
                let source = from.lock();
                let of_table = |row: &CommitRow| row.table == table;
                let copy = |row: &Row| Row { epoch: row.epoch, entries: row.entries.clone() };
                let rows: Vec<_> = source
                    .rows
                    .iter()
                    .filter(|(row, _)| of_table(row))
                    .map(|(name, row)| (name.clone(), copy(row)))
                    .collect();
                drop(source);
                let mut state = self.lock();
                state.rows.retain(|row, _| !of_table(row));
                state.rows.extend(rows);
            }
            Part::Registers => {
                let registers = from.lock().registers.clone();
                self.lock().registers = registers;
            }
        }
    }
}

impl Stored {
    fn copy(&self) -> Self {
        Self { write: self.write.clone(), stamp: self.stamp, is_deleted: self.is_deleted }
    }
}

impl RestoredRows for MemoryCluster {
    async fn scan_replicas(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        self.scan_entries(row, after, limit).await
    }

    async fn overwrite(&self, row: &CommitRow, entries: &[Overwrite]) -> Faulty<RowAnswer> {
        self.round(|state| {
            let row = state.rows.entry(row.clone()).or_default();
            let holds = |entry: &Overwrite| {
                let staged = row.entries.get(&entry.column).and_then(|(staged, _)| staged.as_ref());
                staged == entry.expected.as_ref()
            };
            if !entries.iter().all(holds) {
                return Ok(row.refusal(&[]));
            }
            for Overwrite { column, staged, confirmed, .. } in entries {
                row.entries.insert(column.clone(), (Some(staged.clone()), confirmed.clone()));
            }
            Ok(RowAnswer::Applied)
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Epoch, block_on};

    use super::*;
    use crate::cluster::commit_rows::CommitTable;
    use crate::cluster::commit_rows::NewEntry;

    #[test]
    fn overwrite_requires_the_expected_value() {
        let cluster = MemoryCluster::new();
        let row = CommitRow { table: CommitTable::V3, row: Bytes::from_static(b"r") };
        let put = [NewEntry { column: "a".into(), value: "1".into() }];
        block_on(cluster.put_unless_exists(&row, None, &put)).unwrap();
        block_on(cluster.confirm(&row, &put)).unwrap();
        let over = |column: &'static str, expected: Option<&'static str>| Overwrite {
            column: column.into(),
            expected: expected.map(Bytes::from),
            staged: "A".into(),
            confirmed: Some("A".into()),
        };
        let overwrite = |entries: &[Overwrite]| block_on(cluster.overwrite(&row, entries)).unwrap();
        let refused = overwrite(&[over("b", None), over("a", Some("2"))]);
        assert!(matches!(refused, RowAnswer::Refused { .. }));
        assert_eq!(overwrite(&[over("b", None), over("a", Some("1"))]), RowAnswer::Applied);
        let page = block_on(cluster.scan_replicas(&row, None, 10)).unwrap();
        let values: Vec<_> = page.entries.iter().map(|entry| entry.confirmed.as_deref()).collect();
        assert_eq!(values, [Some(&b"A"[..]); 2]);
    }

    #[test]
    fn copied_part_replaces_the_old_one() {
        let (source, copy) = (MemoryCluster::new(), MemoryCluster::new());
        let row = |name: &'static str| CommitRow { table: CommitTable::V3, row: name.into() };
        block_on(source.move_epoch(&row("r"), None, Epoch(3))).unwrap();
        block_on(copy.move_epoch(&row("other"), None, Epoch(9))).unwrap();
        copy.copy_part(&source, Part::Commits(CommitTable::V2));
        assert!(copy.lock().rows.contains_key(&row("other")));
        copy.copy_part(&source, Part::Commits(CommitTable::V3));
        let rows: Vec<_> =
            copy.lock().rows.iter().map(|(row, of)| (row.clone(), of.epoch)).collect();
        assert_eq!(rows, [(row("r"), Some(Epoch(3)))]);
    }
}

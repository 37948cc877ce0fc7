//! Rows of a restored copy.

use carnet_base::Bytes;
use carnet_store::cluster::{CommitRow, EntryPage, Faulty, Overwrite, RestoredRows, RowAnswer};
use scylla::statement::Consistency;

use crate::cluster::CqlCluster;
use crate::fault::unclear;
use crate::request_settings::RequestSettings;
use crate::session::Bind;
use crate::statement::{Commits, Statement};

impl RestoredRows for CqlCluster {
    async fn scan_replicas(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        let how = RequestSettings { consistency: Consistency::All, ..self.session.read() };
        self.scan_row(how, row, after, limit).await
    }

    async fn overwrite(&self, row: &CommitRow, entries: &[Overwrite]) -> Faulty<RowAnswer> {
        if entries.is_empty() {
            return Ok(RowAnswer::Applied);
        }
        let statement = Statement::Commits(row.table, Commits::Overwrite);
        let overwrite = entries.iter().map(|Overwrite { column, expected, staged, confirmed }| {
            let (staged, confirmed) = (Bind::Blob(staged), value(confirmed.as_ref()));
            let (name, expected) = (Bind::Blob(column), value(expected.as_ref()));
            (statement, vec![staged, confirmed, Bind::Blob(&row.row), name, expected])
        });
        let batch: Vec<_> = overwrite.collect();
        let answer = self.session.decide_batch(&batch).await?;
        let is_applied = answer.is_applied();
        Ok(if is_applied.map_err(unclear)? {
            RowAnswer::Applied
        } else {
            RowAnswer::Refused { epoch: None, existing: Vec::new() }
        })
    }
}

fn value(bytes: Option<&Bytes>) -> Bind<'_> {
    bytes.map_or(Bind::Null, |bytes| Bind::Blob(bytes))
}

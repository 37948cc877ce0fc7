//! Rows of stored columns, copied from keys and payloads to the result.
//!
//! ```text
//!   key       table, token, partition key, clustering key ──┐  decoded once for a partition,
//!                                                           │  and for each row
//!   payload   marker, column 3, column 5, column 9 ─────────┤  borrowed
//!                                                           ▼
//!   result    length, value, length, value, …                  copied in the order of the SELECT
//! ```
//!
//! No value has an allocation or a reference count of its own.

use carnet::{Result, Tx};
use carnet_base::{Bytes, BytesMut, CellKeyRef};
use carnet_data::row::RowReader;
use carnet_data::{key, partition};

use super::answer_memory::AnswerMemory;
use super::select_reader::ROW_BYTES;
use super::stored_row::{LentImage, LentRow};
use crate::compile::{PlainColumn, PlainColumns};
use crate::cql_error::CqlError;
use crate::result::RowSet;

/// Number of values of a row without an allocation.
const FEW: usize = 16;

/// Writer of rows of stored columns.
pub(super) struct PlainRows<'a> {
    tx: &'a Tx,
    plan: &'a PlainColumns,
    memory: Option<&'a AnswerMemory>,
    /// The last row's partition key, with its values.
    partition: Option<(Bytes, Vec<Bytes>)>,
    /// Values of the clustering key of the row, and the end of each.
    clustering: BytesMut,
    ends: Vec<usize>,
}

impl<'a> PlainRows<'a> {
    pub(super) fn new(
        tx: &'a Tx,
        plan: &'a PlainColumns,
        memory: Option<&'a AnswerMemory>,
    ) -> Self {
        let (clustering, ends) = (BytesMut::new(), Vec::new());
        Self { tx, plan, memory, partition: None, clustering, ends }
    }

    /// Appends a row to a result. The memory of a long row is charged before.
    ///
    /// # Errors
    ///
    /// Errors of a damaged row, and of a row that takes more memory than the answer may have.
    pub(super) fn write(
        &mut self,
        row: &LentRow<'_>,
        rows: &mut RowSet,
    ) -> std::result::Result<(), CqlError> {
        self.read_partition(row.key)?;
        self.read_clustering(row.key.clustering())?;
        let mut few = [None; FEW];
        let mut many = Vec::new();
        let count = self.plan.regular.len();
        let regular = match few.get_mut(..count) {
            Some(few) => few,
            None => {
                many.resize(count, None);
                &mut many[..]
            }
        };
        self.read_regular(row.image, regular)?;
        let partition = self.partition.as_ref().map_or(&[][..], |(_, values)| values);
        let values = self.plan.outputs.iter().map(|output| match *output {
            PlainColumn::Partition(position) => partition.get(position).map(|value| &value[..]),
            PlainColumn::Clustering(position) => self.clustering(position),
            PlainColumn::Regular(position) => regular[position],
            PlainColumn::Static(id) => row.statics?.value(id).map(|value| &value[..]),
        });
        if let Some(memory) = self.memory {
            let bytes = values.clone().flatten().map(<[u8]>::len).sum::<usize>();
            if bytes > ROW_BYTES {
                memory.grow_by_row(rows.encoded().len(), bytes)?;
            }
        }
        rows.push(values);
        Ok(())
    }

    /// Decodes the partition key of a row, unless it is that of the last one.
    fn read_partition(&mut self, key: CellKeyRef<'_>) -> Result<()> {
        if self.partition.as_ref().is_some_and(|(last, _)| last[..] == *key.partition()) {
            return Ok(());
        }
        let bytes = Bytes::copy_from_slice(key.partition());
        let values = match &self.plan.partition[..] {
            // A partition key of one column is that column's bytes.
            [_] => vec![bytes.clone()],
            types => {
                partition::decode(types, &bytes)?.iter().map(carnet::Value::serialize).collect()
            }
        };
        self.partition = Some((bytes, values));
        Ok(())
    }

    fn read_clustering(&mut self, clustering: &[u8]) -> Result<()> {
        self.clustering.clear();
        self.ends.clear();
        // The row of a partition that has only static columns.
        if clustering.is_empty() {
            return Ok(());
        }
        let (types, orders) = (&self.plan.clustering, &self.plan.orders);
        key::decode_each(clustering, types, orders, |value| {
            value.serialize_into(&mut self.clustering);
            self.ends.push(self.clustering.len());
        })
    }

    fn clustering(&self, position: usize) -> Option<&[u8]> {
        let end = *self.ends.get(position)?;
        let begin = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.clustering[begin..end])
    }

    fn read_regular<'r>(
        &self,
        image: Option<LentImage<'r>>,
        values: &mut [Option<&'r [u8]>],
    ) -> Result<()> {
        let ids = &self.plan.regular;
        match image {
            None => {}
            Some(LentImage::Decoded(image)) => {
                for (id, value) in ids.iter().zip(values) {
                    *value = image.value(*id).map(|value| &value[..]);
                }
            }
            Some(LentImage::Encoded(payload)) => {
                let now = || self.tx.wall_seconds();
                let mut wanted = ids.iter().zip(values).peekable();
                let mut columns = RowReader::new(payload)?;
                while let Some(column) = columns.next_column()? {
                    while wanted.next_if(|(id, _)| **id < column.id).is_some() {}
                    if let Some((_, value)) = wanted.next_if(|(id, _)| **id == column.id) {
                        *value = column.value_at(now)?;
                    }
                }
            }
        }
        Ok(())
    }
}

//! Changes of rows of a table with indexes and views, which agree with the table at every snapshot.
//!
//! Only the `carnet` crate maintains indexes and views; over a bare store the workload does nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use carnet::catalog::{
    ColumnKind, ColumnSchema, IndexSchema, IndexedPart, TableKind, TableSchema, ViewRelation,
    ViewSchema, ViewTest,
};
use carnet::derived::{RowStore, check_index, check_view};
use carnet::{Tx, Uuid};
use carnet_base::key::{self, Order};
use carnet_base::row::{Change, Column, Marker, RowDelta, RowImage};
use carnet_base::{Bytes, CellKey, ColumnId, DataType, Error, Result, TableId, Value, partition};
use carnet_store::BeginKind;

use super::{Workload, cell};
use crate::client::Client;
use crate::database::Database;
use crate::random::Random;
use crate::run_record::Part;

/// Number of partitions, and of rows in each.
const PARTITIONS: i64 = 2;
const ROWS: i64 = 3;
const TABLE: TableId = TableId(2_000);
const A: ColumnId = ColumnId(2);
const B: ColumnId = ColumnId(3);

static SCHEMA: LazyLock<Arc<TableSchema>> = LazyLock::new(|| Arc::new(schema()));

/// `CREATE TABLE t (k bigint, c bigint, a bigint, b bigint, PRIMARY KEY (k, c))`, with an index on `a` in several
/// partitions, an index on `b`, a view by `a`, and a view by `c` that has only `b`.
fn schema() -> TableSchema {
    let column = |id: u16, name: &str, kind| ColumnSchema {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type: DataType::Bigint,
        is_multi_cell: false,
        kind,
    };
    let index = |number: u32, column, bits| IndexSchema {
        name: format!("index_{number}"),
        id: TableId(TABLE.0 + number),
        column,
        part: IndexedPart::Value,
        class: None,
        options: BTreeMap::new(),
        bits,
        is_built: true,
    };
    let view = |number: u32, key: ColumnId, clustering: &[u16], columns| ViewSchema {
        name: format!("view_{number}"),
        id: TableId(TABLE.0 + number),
        uuid: Uuid::from_u64_pair(1, u64::from(number)),
        partition: vec![key],
        clustering: clustering.iter().map(|id| (ColumnId(*id), Order::Asc)).collect(),
        columns,
        filter: [0, 1, key.0]
            .map(|id| ViewRelation { column: ColumnId(id), test: ViewTest::NotNull })
            .to_vec(),
        options: BTreeMap::new(),
        is_built: true,
    };
    TableSchema {
        id: TABLE,
        keyspace: "sim".to_owned(),
        name: "t".to_owned(),
        version: 1,
        kind: TableKind::Rows,
        columns: vec![
            column(0, "k", ColumnKind::Partition),
            column(1, "c", ColumnKind::Clustering(Order::Asc)),
            column(A.0, "a", ColumnKind::Regular),
            column(B.0, "b", ColumnKind::Regular),
        ],
        next_column: 4,
        uuid: Uuid::from_u64_pair(1, 0),
        options: BTreeMap::new(),
        indexes: vec![index(1, A, 2), index(2, B, 0)],
        dropped: Vec::new(),
        views: vec![view(3, A, &[0, 1], None), view(4, ColumnId(1), &[0], Some(vec![B]))],
        base: None,
    }
}

pub(super) async fn run<D: Database>(client: &mut Client<D>) -> Result<()> {
    if client.random.percent(40) {
        return audit(client).await;
    }
    let mut tx = client.begin(Part::Other, BeginKind::ReadWrite).await?;
    // The verdict recognizes the transaction by a recorded write.
    tx.put(&cell(Workload::Derived, client.process, b""), Bytes::new())?;
    if let Some(tx) = tx.facade() {
        for _ in 0..client.random.between(1, 3) {
            change(tx, &mut client.random).await?;
        }
    }
    tx.commit().await.map(drop)
}

/// Changes a random row, with values that often are equal to those of other rows.
async fn change(tx: &Tx, random: &mut Random) -> Result<()> {
    let rows = RowStore::new(tx, &SCHEMA);
    let key = row(random)?;
    match random.below(8) {
        0 => rows.delete(key).await,
        1 | 2 => {
            let mut image = RowImage::new(1);
            image.marker = Some(Marker::default());
            for column in [A, B] {
                if random.percent(70) {
                    image.set(column, Column::new(value(random)));
                }
            }
            rows.put(key, image).await
        }
        _ => {
            let mut delta = RowDelta::new(1);
            let column = if random.percent(50) { A } else { B };
            let set = Change::Set { value: value(random), expiry: None };
            delta.change(column, if random.percent(20) { Change::Deleted } else { set });
            rows.change(key, &delta).await
        }
    }
}

fn row(random: &mut Random) -> Result<CellKey> {
    let number = |max: i64, random: &mut Random| {
        Value::Bigint(random.below(max.unsigned_abs()).cast_signed())
    };
    let partition = partition::encode(&[number(PARTITIONS, random)])?;
    let clustering = key::encode(&[number(ROWS, random)], &[Order::Asc])?;
    Ok(CellKey::new(TABLE, &partition, clustering))
}

fn value(random: &mut Random) -> Bytes {
    Value::Bigint(random.below(3).cast_signed()).serialize()
}

/// Compares the indexes and views with the table.
async fn audit<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    if let Some(facade) = tx.facade() {
        let read = tx.read_timestamp();
        let found = differences(facade).await?;
        for (name, count) in found {
            client
                .run_record
                .wrong(format!("at snapshot {read}: {count} cells of {name} are wrong"));
        }
    }
    tx.commit().await.map(drop)
}

/// Returns the names of indexes and views that differ from the table, with the number of wrong cells.
async fn differences(tx: &Tx) -> Result<Vec<(String, usize)>, Error> {
    let mut found = Vec::new();
    for index in &SCHEMA.indexes {
        found.push((index.name.clone(), check_index(tx, &SCHEMA, index).await?));
    }
    for view in &SCHEMA.views {
        found.push((view.name.clone(), check_view(tx, &SCHEMA, view).await?));
    }
    let counts = found.into_iter().map(|(name, it)| (name, it.missing.len() + it.stray.len()));
    Ok(counts.filter(|(_, count)| *count > 0).collect())
}

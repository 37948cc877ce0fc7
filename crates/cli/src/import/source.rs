//! Source of the rows.

use anyhow::{Result, bail, ensure};
use carnet::cluster::{ForeignCluster, ForeignPosition, ForeignScan, ForeignTable, TableUrl};
use carnet::{ErrorKind, block_on};
use carnet_base::Token;

use super::row::{Row, literal, text};
use super::shape::{self, Shape};
use super::table_name::TableName;
use super::user_types::{UserTypes, types_query};

/// The partitioner whose tokens Carnet uses.
const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// A table that is read in token order.
pub(super) trait Source: Sync {
    /// Position at which a page ended.
    type Position: Clone + Send;

    /// Reads at most `page_rows` rows whose tokens are greater than the first and at most the
    /// second, from the range's start or from the end of a page.
    ///
    /// # Errors
    ///
    /// See `ForeignCluster::page`.
    fn page(
        &self,
        range: (Token, Token),
        page_rows: u16,
        from: Option<Self::Position>,
    ) -> carnet::Result<RowPage<Self::Position>>;
}

/// A page of rows, and the position of the next page.
pub(super) struct RowPage<P> {
    pub(super) rows: Vec<(Token, Row)>,
    pub(super) next: Option<P>,
}

/// A table of a cluster that other programs use.
pub(super) struct Foreign {
    cluster: ForeignCluster,
    name: TableName,
    pub(super) shape: Shape,
    /// The user-defined types of the table.
    pub(super) types: UserTypes,
    /// Permanent identity of the table: another table with its name has another one.
    pub(super) identity: String,
    /// Columns whose times follow the columns of a row.
    pub(super) timed: Vec<usize>,
    /// A note about data of this table that is not copied, if any.
    pub(super) note: Option<String>,
    scan: ForeignScan,
}

impl Foreign {
    /// Connects and finds the table. Refuses tables that Carnet does not support.
    pub(super) fn open(url: &TableUrl) -> Result<Self> {
        let name = TableName { keyspace: url.keyspace().into(), table: url.table().into() };
        let cluster = block_on(Box::pin(url.connect()))?;
        let node = block_on(cluster.rows("SELECT cluster_name, partitioner FROM system.local"))?;
        let [node] = &node[..] else { bail!("{url} does not say which cluster it is") };
        let (cluster_name, partitioner) = (text(&node[0])?, text(&node[1])?);
        ensure!(
            partitioner == PARTITIONER,
            "not supported yet: the cluster's partitioner {partitioner}; its tokens have to be \
             those of {PARTITIONER}"
        );
        let columns = block_on(cluster.rows(&shape::columns_query(&name)))?;
        let about = block_on(cluster.rows(&format!(
            "SELECT id FROM system_schema.tables WHERE keyspace_name = {} AND table_name = {}",
            literal(&name.keyspace),
            literal(&name.table)
        )))?;
        let types = UserTypes::read(&block_on(cluster.rows(&types_query(&name.keyspace)))?)?;
        let (Some(shape), [about]) = (Shape::read(&columns, &types)?, &about[..]) else {
            bail!(
                "there is no table {name} at {url}; names are in the case in which the schema has them"
            )
        };
        shape.check()?;
        refuse_masks(&cluster, &name)?;
        let id = about[0].as_deref().and_then(|id| carnet::Uuid::from_slice(id).ok());
        let id = id.map_or_else(String::new, |id| format!(" {id}"));
        let (timed, scan, note) = prepare(&cluster, &name, &shape)?;
        let identity = format!("table {name}{id} of the cluster {cluster_name:?}");
        let types = types.needed(shape.columns.iter().map(|column| &*column.type_name));
        Ok(Self { cluster, name, shape, types, identity, timed, note, scan })
    }

    pub(super) fn name(&self) -> &TableName {
        &self.name
    }
}

/// Prepares the scan, with the times of all columns, or only of those for which the cluster tells them.
fn prepare(
    cluster: &ForeignCluster,
    name: &TableName,
    shape: &Shape,
) -> Result<(Vec<usize>, ForeignScan, Option<String>)> {
    let scan = |timed: &[usize]| {
        let names = |at: &usize| shape.columns[*at].name.clone();
        block_on(cluster.scan(&ForeignTable {
            keyspace: name.keyspace.clone(),
            table: name.table.clone(),
            partition_key: shape.partition_key(),
            columns: shape.columns.iter().map(|column| column.name.clone()).collect(),
            timed: timed.iter().map(names).collect(),
        }))
    };
    let timed = shape.timed(true);
    match scan(&timed) {
        Err(error) if shape.has_multi_cell() && error.kind() == ErrorKind::Invalid => {
            let timed = shape.timed(false);
            let found = scan(&timed)?;
            let note = format!(
                "the source tells no write times and times to live of elements of collections: in the \
                 copy of {name} they do not expire"
            );
            Ok((timed, found, Some(note)))
        }
        found => Ok((timed, found?, None)),
    }
}

/// Refuses columns that are masked for the role: masks look like values.
fn refuse_masks(cluster: &ForeignCluster, name: &TableName) -> Result<()> {
    if block_on(cluster.rows(shape::HAS_MASKS_QUERY))?.is_empty() {
        return Ok(());
    }
    let masked = block_on(cluster.rows(&shape::masks_query(name)))?;
    if let Some(column) = masked.iter().flatten().next() {
        bail!("not supported yet: column {} is masked; nothing was copied", text(column)?);
    }
    Ok(())
}

impl Source for Foreign {
    type Position = ForeignPosition;

    fn page(
        &self,
        range: (Token, Token),
        page_rows: u16,
        from: Option<ForeignPosition>,
    ) -> carnet::Result<RowPage<ForeignPosition>> {
        let page = block_on(self.cluster.page(&self.scan, range, page_rows, from))?;
        Ok(RowPage { rows: page.rows, next: page.next })
    }
}

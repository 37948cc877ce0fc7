//! Creating a table that does not exist.

use carnet_base::{Result, Uuid};

use crate::catalog::{self, KeyspaceSchema, TableSchema};
use crate::db::Db;

/// Creates a table and its keyspace if they do not exist.
pub(super) async fn ensure(
    db: &Db,
    keyspace: &str,
    name: &str,
    schema: &(impl Fn(Uuid) -> Result<TableSchema> + Sync),
) -> Result<()> {
    let snapshot = db.snapshot_async().await?;
    if catalog::table(&snapshot, keyspace, name).await?.is_some() {
        return Ok(());
    }
    db.run(|tx| async move {
        if catalog::table(&tx, keyspace, name).await?.is_some() {
            return Ok(());
        }
        if catalog::keyspace(&tx, keyspace).await?.is_none() {
            catalog::create_keyspace(&tx, &KeyspaceSchema::local(keyspace)).await?;
        }
        let start = tx.start_timestamp().map_or(0, carnet_base::Timestamp::get);
        let uuid = Uuid::from_u64_pair(start, u64::from(u32::MAX));
        catalog::create_table(&tx, schema(uuid)?).await?;
        Ok(())
    })
    .await
}

//! Differences between two schemas: a server notifies its clients by them about changes that other
//! servers made.

use std::collections::BTreeMap;

use carnet::{Result, Tx};

use super::node::NodeInfo;
use super::view::{self, KeyspaceView};
use crate::result::{ChangeKind, ChangeTarget, SchemaChange};

/// All keyspaces, types and tables at a snapshot, as visible to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDigest(BTreeMap<String, Keyspace>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Keyspace {
    itself: String,
    types: BTreeMap<String, String>,
    tables: BTreeMap<String, String>,
}

impl SchemaDigest {
    /// Reads the schema of a snapshot, as visible to the clients of a node.
    ///
    /// # Errors
    ///
    /// See [`Tx::get_cell`].
    pub async fn read(tx: &Tx, node: &NodeInfo) -> Result<Self> {
        let views = view::all(tx, &node.data_center).await?;
        Ok(Self(
            views.into_iter().map(|view| (view.name.clone(), Keyspace::from_view(view))).collect(),
        ))
    }

    /// Lists the changes since an earlier schema. A new keyspace is listed before its types and tables; a
    /// dropped keyspace is listed without them.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<SchemaChange> {
        let mut changes = Vec::new();
        for (name, keyspace) in &self.0 {
            let old = before.0.get(name);
            let change = |kind, target| SchemaChange { kind, keyspace: name.clone(), target };
            changes.extend(
                kind(old.map(|old| &old.itself), Some(&keyspace.itself))
                    .map(|kind| change(kind, ChangeTarget::Keyspace)),
            );
            let nothing = BTreeMap::new();
            let types = differences(old.map_or(&nothing, |old| &old.types), &keyspace.types);
            changes.extend(types.map(|(kind, name)| change(kind, ChangeTarget::Type(name))));
            let tables = differences(old.map_or(&nothing, |old| &old.tables), &keyspace.tables);
            changes.extend(tables.map(|(kind, name)| change(kind, ChangeTarget::Table(name))));
        }
        let gone = before.0.keys().filter(|name| !self.0.contains_key(*name));
        changes.extend(gone.map(|name| SchemaChange {
            kind: ChangeKind::Dropped,
            keyspace: name.clone(),
            target: ChangeTarget::Keyspace,
        }));
        changes
    }
}

impl Keyspace {
    fn from_view(mut view: KeyspaceView) -> Self {
        let types = std::mem::take(&mut view.types);
        let types = types.iter().map(|found| (found.name.clone(), format!("{found:?}")));
        let tables = std::mem::take(&mut view.tables);
        let tables = tables.iter().map(|table| (table.name.clone(), format!("{table:?}")));
        Self { types: types.collect(), tables: tables.collect(), itself: format!("{view:?}") }
    }
}

/// Returns the changes of objects, by name.
fn differences<'a>(
    before: &'a BTreeMap<String, String>,
    now: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (ChangeKind, String)> + 'a {
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    names.filter_map(|name| kind(before.get(name), now.get(name)).map(|kind| (kind, name.clone())))
}

fn kind<T: PartialEq>(before: Option<&T>, now: Option<&T>) -> Option<ChangeKind> {
    match (before, now) {
        (None, Some(_)) => Some(ChangeKind::Created),
        (Some(_), None) => Some(ChangeKind::Dropped),
        (Some(before), Some(now)) if before != now => Some(ChangeKind::Updated),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use carnet::{Db, block_on};

    use super::*;
    use crate::{Executor, Parameters, Session};

    /// Returns the changes that a server sees without running any of the statements.
    fn changes(db: &Db, statements: &[&str]) -> Vec<String> {
        let digest = || {
            let snapshot = db.snapshot().unwrap();
            let node = super::super::tests::node();
            block_on(SchemaDigest::read(snapshot.as_async(), &node)).unwrap()
        };
        let before = digest();
        let executor = Executor::new(db.clone(), super::super::tests::node());
        let (session, parameters) = (Session::new(), Parameters::default());
        for statement in statements {
            block_on(executor.query(&session, statement, &parameters)).unwrap();
        }
        let changes = digest().changes_since(&before);
        let tell = |change: SchemaChange| {
            let target = match change.target {
                ChangeTarget::Keyspace => String::new(),
                ChangeTarget::Table(name) => format!(".{name}"),
                ChangeTarget::Type(name) => format!(".{name} (a type)"),
            };
            format!("{:?} {}{target}", change.kind, change.keyspace)
        };
        changes.into_iter().map(tell).collect()
    }

    const REPLICATION: &str = "WITH replication = {'class': 'SimpleStrategy'}";

    #[test]
    fn differences_equal_the_statements_changes() {
        let db = Db::builder().in_memory();
        let create = format!("CREATE KEYSPACE ks {REPLICATION}");
        assert_eq!(changes(&db, &[&create]), ["Created ks"]);
        let table = |name: &str| format!("CREATE TABLE ks.{name} (k int PRIMARY KEY, v int)");
        assert_eq!(changes(&db, &[&table("a")]), ["Created ks.a"]);
        assert_eq!(changes(&db, &["ALTER TABLE ks.a ADD w int"]), ["Updated ks.a"]);
        assert_eq!(changes(&db, &["ALTER TABLE ks.a WITH comment = 'x'"]), ["Updated ks.a"]);
        let alter = "ALTER KEYSPACE ks WITH durable_writes = false";
        assert_eq!(changes(&db, &[alter]), ["Updated ks"]);
        assert_eq!(
            changes(&db, &["DROP TABLE ks.a", &table("b")]),
            ["Dropped ks.a", "Created ks.b"]
        );
        assert_eq!(changes(&db, &["DROP KEYSPACE ks"]), ["Dropped ks"]);
        assert_eq!(changes(&db, &[&create, &table("b")]), ["Created ks", "Created ks.b"]);
    }

    #[test]
    fn recreated_table_is_a_change() {
        let db = Db::builder().in_memory();
        let create = format!("CREATE KEYSPACE ks {REPLICATION}");
        let table = "CREATE TABLE ks.t (k int PRIMARY KEY)";
        assert!(changes(&db, &[]).is_empty());
        assert_eq!(changes(&db, &[&create, table, "DROP KEYSPACE ks"]), [""; 0]);
        changes(&db, &[&create, table]);
        assert_eq!(changes(&db, &["DROP TABLE ks.t", table]), ["Updated ks.t"]);
    }
}

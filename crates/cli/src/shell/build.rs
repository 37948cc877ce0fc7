//! Progress of the build of a new index or view, for people at a terminal.

use std::time::Duration;

use anyhow::Result;
use carnet_cql::ast::{Statement, TableName};

use crate::bar::{Bar, Extent};
use crate::database::Database;
use crate::interrupt;

/// Interval between two looks at the build.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Builds that a statement has begun.
#[derive(Debug)]
pub(super) struct Build<'s> {
    /// View of `system_views` that lists them.
    list: &'static str,
    /// Column with the name of the object.
    column: &'static str,
    /// Table of an index, or the view.
    object: &'s TableName,
}

/// Progress of a build.
struct Look {
    rows: i64,
    part: f64,
}

impl<'s> Build<'s> {
    /// Returns the build that a statement begins, if it begins one.
    pub(super) const fn of(statement: &'s Statement) -> Option<Self> {
        match statement {
            Statement::CreateIndex(create) => {
                Some(Self { list: "indexes", column: "table_name", object: &create.table })
            }
            Statement::CreateView(create) => {
                Some(Self { list: "materialized_views", column: "view_name", object: &create.name })
            }
            _ => None,
        }
    }

    /// Shows the progress until the build ends, or until Ctrl-C: the build goes on then.
    pub(super) fn follow(&self, database: &Database) {
        // The looks would fill the server's list of traces.
        let traces = database.traces().replace(false);
        self.follow_untraced(database);
        database.traces().set(traces);
        if interrupt::check().is_err() {
            eprintln!("the build goes on: see system_views.{}", self.list);
        }
    }

    fn follow_untraced(&self, database: &Database) {
        let Some(keyspace) = self.keyspace(database) else { return };
        let mut bar = None;
        // Servers of other systems have no such list.
        while let Ok(Some(Look { rows, part })) = self.look(database, &keyspace) {
            let bar = bar.get_or_insert_with(|| Bar::new(Extent::Part));
            if !bar.is_shown() {
                return;
            }
            bar.set_part(part, &format!("{rows} rows read"));
            pause();
        }
    }

    fn keyspace(&self, database: &Database) -> Option<String> {
        let named = self.object.keyspace.as_ref().map(|name| name.as_str().to_owned());
        named.or_else(|| database.keyspace())
    }

    /// Returns the progress; `None` if nothing of the object is being built.
    fn look(&self, database: &Database, keyspace: &str) -> Result<Option<Look>> {
        let text = format!(
            "SELECT {}, is_building, rows_read, part_read FROM system_views.{} WHERE keyspace_name = '{}'",
            self.column,
            self.list,
            keyspace.replace('\'', "''")
        );
        let rows = database.rows(&text)?;
        let name = self.object.table.as_str().as_bytes();
        let building = rows
            .rows
            .iter()
            .find(|row| matches!(row[..], [Some(found), Some([1]), ..] if found == name));
        let Some(row) = building else { return Ok(None) };
        let bytes = |at: usize| row[at].and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let rows = bytes(2).map_or(0, i64::from_be_bytes);
        let part = bytes(3).map_or(0.0, f64::from_be_bytes);
        Ok(Some(Look { rows, part }))
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

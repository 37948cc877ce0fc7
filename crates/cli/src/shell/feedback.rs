//! Notes below statements about their effect, for people.

use carnet_cql::ast::{Attribute, OpenStatement, Statement, Write};
use carnet_cql::result::Rows;

/// Column of the result of a conditional statement.
const APPLIED: &str = "[applied]";

/// Returns a description of a completed statement that has no result. `is_open` says whether it was part
/// of an open transaction.
pub(super) fn done(statement: Option<&Statement>, is_open: bool) -> String {
    let Some(statement) = statement else { return "(done)".into() };
    let (what, using) = match statement {
        Statement::Transaction(_) | Statement::Open(OpenStatement::Commit(_)) => {
            return "(committed)".into();
        }
        Statement::Open(OpenStatement::Rollback(_)) => return "(rolled back)".into(),
        Statement::Truncate(table, _) => return format!("(removed all rows of {table})"),
        // How many rows there were is not known: writes do not read.
        Statement::Write(write) => match write {
            Write::Insert(insert) => ("1 row written".to_owned(), &insert.using),
            Write::Update(update) => ("written".to_owned(), &update.using),
            Write::Delete(delete) => ("deleted".to_owned(), &delete.using),
        },
        Statement::Batch(batch) => match batch.writes.len() {
            1 => ("1 statement written".to_owned(), &batch.using),
            count => (format!("{count} statements written"), &batch.using),
        },
        _ => return "(done)".into(),
    };
    if is_open || using.get(Attribute::Transaction).is_some() {
        return format!("({what} in the open transaction)");
    }
    format!("({what})")
}

/// Returns a note on the result of a conditional statement whose condition did not hold.
pub(super) fn not_applied(statement: Option<&Statement>, rows: &Rows) -> Option<&'static str> {
    let is_write = matches!(statement, Some(Statement::Write(_) | Statement::Batch(_)));
    let is_conditional = rows.columns.first().is_some_and(|column| column.name == APPLIED);
    let applied = rows.rows.iter().next()?.first().copied().flatten()?;
    (is_write && is_conditional && applied == [0]).then_some("(not applied: nothing was changed)")
}

#[cfg(test)]
mod tests {
    use carnet::DataType;
    use carnet_cql::result::ColumnSpec;
    use carnet_cql::{Limits, parse};

    use super::*;

    fn statement(text: &str) -> Statement {
        parse(text, &Limits::default()).unwrap().statement
    }

    #[test]
    fn effects_of_writes_are_told() {
        let said = |text: &str, is_open| done(Some(&statement(text)), is_open);
        assert_eq!(said("INSERT INTO t (a) VALUES (1)", false), "(1 row written)");
        assert_eq!(
            said("UPDATE t SET b = 1 WHERE a = 1", true),
            "(written in the open transaction)"
        );
        assert_eq!(said("DELETE FROM t WHERE a = 1", false), "(deleted)");
        let id = "00000000-0000-0000-0000-000000000000";
        let using = format!("DELETE FROM t USING TRANSACTION {id} WHERE a = 1");
        assert_eq!(said(&using, false), "(deleted in the open transaction)");
        let batch = "BEGIN BATCH DELETE FROM t WHERE a = 1; DELETE FROM t WHERE a = 2; APPLY BATCH";
        assert_eq!(said(batch, false), "(2 statements written)");
        assert_eq!(said("TRUNCATE k.t", false), "(removed all rows of k.t)");
        assert_eq!(said("COMMIT", true), "(committed)");
        assert_eq!(said("GRANT SELECT ON k.t TO ann", false), "(done)");
    }

    #[test]
    fn conditions_that_did_not_hold_are_told() {
        let rows = |name: &str, value: u8| Rows {
            columns: vec![ColumnSpec::new("k", "t", name, DataType::Boolean)].into(),
            rows: vec![vec![Some(vec![value].into())]].into(),
            paging_state: None,
        };
        let write = statement("INSERT INTO t (a) VALUES (1) IF NOT EXISTS");
        assert!(not_applied(Some(&write), &rows(APPLIED, 0)).is_some());
        assert_eq!(not_applied(Some(&write), &rows(APPLIED, 1)), None);
        assert_eq!(not_applied(Some(&write), &rows("other", 0)), None);
        // A transaction whose condition did not hold may have run its ELSE.
        let transaction =
            "BEGIN TRANSACTION SELECT applied(); DELETE FROM t WHERE a = 1; COMMIT TRANSACTION";
        assert_eq!(not_applied(Some(&statement(transaction)), &rows(APPLIED, 0)), None);
    }
}

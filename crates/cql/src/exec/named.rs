//! Names of statements for the diagnosis and the log: the table, and the text without values.

use carnet_admission::diagnosis::Named;

use crate::ast::{Batch, Statement, TableName, Write};
use crate::cut::beginning;
use crate::fingerprint::normalized;
use crate::lexer::{Lexer, TokenKind};
use crate::redact::redacted;

/// Maximum bytes of a statement's text that its name is made from.
const TEXT_LEN_MAX: usize = 1 << 10;

/// Returns the table of a statement, and its text without values.
pub(super) fn name(statement: &Statement, keyspace: Option<&str>) -> Named {
    let (text, _) = beginning(statement, TEXT_LEN_MAX);
    Named::new(&table_name(statement, keyspace), &without_values(&text))
}

/// Returns the table of a statement, and its text as the name of its fingerprint.
pub(super) fn fingerprint(statement: &Statement, keyspace: Option<&str>) -> (String, String) {
    let (text, _) = beginning(statement, TEXT_LEN_MAX);
    (table_name(statement, keyspace), normalized(&text))
}

/// Returns the keyspace in which the names of a statement are looked up, if the name of its table needs one.
pub(super) fn keyspace_of_names<'k>(
    statement: &Statement,
    keyspace: Option<&'k str>,
) -> Option<&'k str> {
    let is_unqualified = table_of(statement).is_some_and(|table| table.keyspace.is_none());
    keyspace.filter(|_| is_unqualified)
}

fn table_name(statement: &Statement, keyspace: Option<&str>) -> String {
    let table = table_of(statement).map(|table| match (&table.keyspace, keyspace) {
        (None, Some(keyspace)) => format!("{keyspace}.{table}"),
        _ => table.to_string(),
    });
    table.unwrap_or_default()
}

/// Returns a text without values and passwords, which may be cut or wrong.
pub(super) fn name_of_text(text: &str) -> String {
    normalized(&redacted(text))
}

/// Returns the first table that a statement changes, or else reads.
fn table_of(statement: &Statement) -> Option<&TableName> {
    match statement.planned() {
        Statement::Select(select) => Some(&select.from),
        Statement::Write(write) => Some(write.table()),
        Statement::Batch(Batch { writes, .. }) => writes.first().map(Write::table),
        Statement::Transaction(transaction) => {
            let written = transaction.writes().map(Write::table).next();
            written.or_else(|| transaction.selects().map(|select| &select.from).next())
        }
        Statement::Truncate(table, _) => Some(table),
        _ => None,
    }
}

/// Replaces values in a text by `?`: statements that differ only in values get one name.
fn without_values(text: &str) -> String {
    let (mut out, mut copied) = (String::new(), 0);
    let mut lexer = Lexer::new(text);
    // A cut text may end in the middle of a string, which is a value.
    while let Ok(token) = lexer.next() {
        match token.kind {
            TokenKind::End => {
                out.push_str(&text[copied..]);
                return out;
            }
            TokenKind::Word | TokenKind::QuotedName | TokenKind::Symbol(_) => {}
            _ => {
                out.push_str(&text[copied..token.start]);
                out.push('?');
                copied = token.end;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Limits, parse};

    fn named(text: &str) -> Named {
        name(&parse(text, &Limits::default()).unwrap().statement, Some("ks"))
    }

    #[test]
    fn values_are_not_part_of_the_name() {
        let same = named("SELECT v FROM t WHERE k = 7 AND c IN ('a', 'b''c')");
        assert_eq!(same.table(), "ks.t");
        assert_eq!(same.statement(), "SELECT v FROM t WHERE k = ? AND c IN (?, ?)");
        assert_eq!(named("SELECT v FROM t WHERE k = 8 AND c IN ('', '1')"), same);
        assert_eq!(named("INSERT INTO o.t (k) VALUES (0x00)").table(), "o.t");
    }

    #[test]
    fn transactions_have_the_name_of_a_table() {
        let read = "LET a = (SELECT v FROM read WHERE k = 1); ";
        let write = "UPDATE o.written SET v = a.v WHERE k = 1; ";
        let table = |body: &str| named(&format!("BEGIN TRANSACTION {body} COMMIT TRANSACTION"));
        assert_eq!(table(&format!("{read} {write}")).table(), "o.written");
        assert_eq!(table(&format!("{read} SELECT a.v;")).table(), "ks.read");
    }

    #[test]
    fn long_texts_are_cut_without_their_values() {
        let long = format!("INSERT INTO t (k) VALUES ('{}')", "secret ".repeat(1_000));
        assert!(!named(&long).statement().contains("secret"));
        let long = format!("SELECT {} FROM t", vec!["é"; 4_000].join(", "));
        let long = long.replace('é', "\"é\"");
        assert!(named(&long).statement().len() <= 160);
    }
}

//! Statements that the dashboard's pages send. A server whose console is off runs no others for it.

use carnet_cql::ast::{LevelStatement, Name, OpenStatement, Statement};
use carnet_cql::{Limits, parse};

/// Maximum length of a page's statement in bytes. Longer texts are not parsed here.
const LEN_MAX: usize = 512;

/// Keyspaces that pages read. `system_auth` is not among them.
const KEYSPACES: [&str; 4] = ["system", "system_schema", "system_views", "system_virtual_schema"];

/// Returns `true` for a statement that a page may send: it reads the server's own tables, lists service
/// levels, or ends a statement or a transaction.
pub(super) fn is_of_a_page(text: &str) -> bool {
    if text.len() > LEN_MAX {
        return false;
    }
    let Ok(parsed) = parse(text, &Limits::default()) else { return false };
    match &parsed.statement {
        Statement::Select(select) => {
            let keyspace = select.from.keyspace.as_ref().map(Name::as_str);
            keyspace.is_some_and(|keyspace| KEYSPACES.contains(&keyspace))
        }
        Statement::Level(level) => {
            matches!(level, LevelStatement::List(None) | LevelStatement::ListAttached(None))
        }
        Statement::ShowBottleneck
        | Statement::KillStatement(_)
        | Statement::Open(OpenStatement::Kill(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Returns the statements in the text of a script: literals that begin with a word of CQL.
    fn statements(script: &str) -> Vec<String> {
        let begins = ["SELECT ", "SHOW ", "LIST ", "KILL "];
        let starts = begins.iter().flat_map(|word| script.match_indices(word));
        let literal = |(at, _): (usize, &str)| {
            let quote = script[..at].chars().next_back().filter(|c| "'\"`".contains(*c))?;
            let text = script[at..].split(quote).next()?;
            Some(text.replace("${view}", "indexes").replace("${row.id}", "?"))
        };
        starts.filter_map(literal).collect()
    }

    #[test]
    fn statements_of_all_pages_run_without_the_console() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        let pages = fs::read_dir(folder.join("pages")).unwrap();
        let files = pages.map(|entry| entry.unwrap().path()).chain([folder.join("api.js")]);
        let all: Vec<String> =
            files.flat_map(|file| statements(&fs::read_to_string(file).unwrap())).collect();
        assert!(all.len() >= 15, "{all:?}");
        for text in all {
            assert!(is_of_a_page(&text), "{text}");
        }
    }

    #[test]
    fn other_statements_are_of_the_console() {
        for text in [
            "SELECT * FROM shop.sales",
            "SELECT * FROM clients",
            "SELECT salted_hash FROM system_auth.roles",
            "UPDATE system_views.settings SET value = 'x' WHERE name = 'y'",
            "CREATE SERVICE LEVEL gold",
            "DROP KEYSPACE shop",
            "EXPLAIN SELECT * FROM system.local",
            "USE system",
            "COMMIT",
            "",
        ] {
            assert!(!is_of_a_page(text), "{text}");
        }
        let long = format!("SELECT * FROM system.local WHERE key = '{}'", "x".repeat(LEN_MAX));
        assert!(!is_of_a_page(&long));
    }
}

//! The examples of CQL on the pages in `docs` and `docs/cql`: each block of a page runs, and below a statement its
//! answer stands as a comment. A comment of HTML that begins with `cql` has statements that readers do not see.
//! Rewrite the answers with `UPDATE_GOLDENFILES=1 cargo test -p carnet-cql --test all docs::`,
//! and read the diff.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, PieceEnd, Session, Timeouts, split};

use crate::support::table;

const OPEN: &str = "```cql\n";
const CLOSE: &str = "```\n";
/// Begin and end of statements that readers do not see.
const HIDDEN: [&str; 2] = ["<!-- cql\n", "-->\n"];
/// Begins a line of an answer.
const ANSWER: &str = "-- ";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cql")
}

struct Page {
    executor: Executor,
    session: Session,
}

impl Page {
    fn new() -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::new(Db::builder().in_memory(), node);
        // The timeouts of a server: EXPLAIN shows them.
        let [statement, scan, schema] = [5, 60, 60].map(Duration::from_secs);
        executor.set_timeouts(Timeouts { statement, scan, schema });
        Self { executor, session: Session::new() }
    }

    /// Runs a block, and returns it with the answers.
    fn run(&self, block: &str) -> String {
        let statements: Vec<&str> =
            block.lines().filter(|line| !line.starts_with(ANSWER.trim_end())).collect();
        let statements = statements.join("\n");
        let mut done = String::new();
        for piece in split(&statements) {
            let text = piece.text.trim();
            if text.is_empty() {
                continue;
            }
            assert_eq!(piece.end, PieceEnd::Semicolon, "{text} ends with a semicolon");
            done += &format!("{text};\n");
            let parameters = Parameters::default();
            let answer = match block_on(self.executor.query(&self.session, text, &parameters)) {
                Ok(Response::Rows(rows)) => table::table(&rows),
                Ok(_) => continue,
                Err(error) => format!("error: {}\n", error.message()),
            };
            for line in answer.lines() {
                done += format!("{ANSWER}{line}").trim_end();
                done += "\n";
            }
        }
        done
    }

    /// Runs the blocks of a page, and returns it with the answers.
    fn render(&self, content: &str) -> String {
        let (mut done, mut rest) = (String::new(), content);
        while let Some((at, [open, close])) = next_block(rest) {
            let (before, block) = rest.split_at(at);
            let (block, after) = block[open.len()..].split_once(close).expect("a block ends");
            done += &format!("{before}{open}{}{close}", self.run(block));
            rest = after;
        }
        done + rest
    }
}

/// Returns the offset of the first block, and its begin and end.
fn next_block(content: &str) -> Option<(usize, [&'static str; 2])> {
    let places = [[OPEN, CLOSE], HIDDEN].into_iter();
    places.filter_map(|ends| Some((content.find(ends[0])?, ends))).min_by_key(|(at, _)| *at)
}

/// Returns the pages with examples: all of `docs/cql`, and others that have one.
fn pages() -> Vec<PathBuf> {
    let files = |folder: PathBuf| {
        let entries = fs::read_dir(folder).expect("the folder is there");
        entries.map(|entry| entry.expect("an entry").path())
    };
    let others = files(folder().join("..")).filter(|path| {
        path.extension().is_some_and(|end| end == "md")
            && fs::read_to_string(path).expect("a page is text").contains(OPEN)
    });
    files(folder()).chain(others).collect()
}

#[test]
fn examples_have_these_answers() {
    let mut checked = 0;
    for path in pages() {
        let content = fs::read_to_string(&path).expect("a page is text");
        assert!(content.contains(OPEN), "{} has no example", path.display());
        let rendered = Page::new().render(&content);
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            fs::write(&path, &rendered).expect("the page can be written");
            continue;
        }
        assert_eq!(rendered, content, "in {}", path.display());
        checked += 1;
    }
    assert!(checked >= 14 || std::env::var_os("UPDATE_GOLDENFILES").is_some(), "{checked} pages");
    let index = fs::read_to_string(folder().with_extension("md")).expect("docs/cql.md is there");
    for entry in fs::read_dir(folder()).expect("docs/cql is there") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
        assert!(index.contains(&format!("(cql/{name})")), "docs/cql.md has no link to {name}");
    }
}

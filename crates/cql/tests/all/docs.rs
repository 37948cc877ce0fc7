//! The examples of `docs/cql`: each block of a page runs, and below a statement its answer stands as
//! a comment. Rewrite the answers with `UPDATE_GOLDENFILES=1 cargo test -p carnet-cql --test all docs::`,
//! and read the diff.

use std::fs;
use std::path::PathBuf;

use carnet::{Db, Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, PieceEnd, Session, split};

use crate::support::table;

const OPEN: &str = "```cql\n";
const CLOSE: &str = "```\n";
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
        Self { executor: Executor::new(Db::builder().in_memory(), node), session: Session::new() }
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
        let mut parts = content.split(OPEN);
        let mut done = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (block, rest) = part.split_once(CLOSE).expect("a block ends");
            done += &format!("{OPEN}{}{CLOSE}{rest}", self.run(block));
        }
        done
    }
}

#[test]
fn examples_have_these_answers() {
    let mut pages = 0;
    for entry in fs::read_dir(folder()).expect("docs/cql is there") {
        let path = entry.expect("an entry").path();
        let content = fs::read_to_string(&path).expect("a page is text");
        assert!(content.contains(OPEN), "{} has no example", path.display());
        let rendered = Page::new().render(&content);
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            fs::write(&path, &rendered).expect("the page can be written");
            continue;
        }
        assert_eq!(rendered, content, "in {}", path.display());
        pages += 1;
    }
    assert!(pages >= 10 || std::env::var_os("UPDATE_GOLDENFILES").is_some(), "{pages} pages");
    let index = fs::read_to_string(folder().with_extension("md")).expect("docs/cql.md is there");
    for entry in fs::read_dir(folder()).expect("docs/cql is there") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
        assert!(index.contains(&format!("(cql/{name})")), "docs/cql.md has no link to {name}");
    }
}

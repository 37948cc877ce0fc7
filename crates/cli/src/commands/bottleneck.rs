//! `carnet bottleneck`: reasons for which a server's statements wait.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::policies::retry::FallthroughRetryPolicy;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::login::At;
use crate::database::Server;

/// Timeout for the connection and for the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Show the reasons for which a server's statements waited in the last 10 s, and the main one.
///
/// The first line is the verdict. It is followed by a line for each reason and service level, the
/// longest wait first, with the statement and the table that waited most. The server answers even
/// while it refuses other statements. Each server of a database reports its own statements only.
///
/// Exit code 0 means that the server answered, whatever the verdict.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bottleneck {
    #[command(flatten)]
    server: At,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet bottleneck
  carnet bottleneck --at db1:9042 --user ann --password-file pw
  carnet bottleneck --json | jq -r .why";

impl Bottleneck {
    pub(crate) fn run(self) -> Result<()> {
        let runtime = Runtime::new().context("cannot start the runtime")?;
        let rows = runtime.block_on(self.ask())?;
        let mut rows = rows.into_iter();
        let verdict = rows.next().context("the server returned no verdict")?;
        let causes: Vec<Line> = rows.collect();
        if self.json {
            println!("{}", report(&verdict, &causes));
        } else {
            println!("{}", verdict.explanation);
            if !causes.is_empty() {
                println!("\n{}", table(&causes).trim_fmt());
            }
        }
        Ok(())
    }

    async fn ask(&self) -> Result<Vec<Line>> {
        let session = self.connect().await?;
        let at = self.server.address();
        let refused = |error| anyhow!("{at} refuses SHOW BOTTLENECK: {error}");
        let result = session.query_unpaged("SHOW BOTTLENECK", ()).await.map_err(refused)?;
        let result = result.into_rows_result()?;
        let rows = result.rows::<Row>()?.map(|row| row.map(Line::from));
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn connect(&self) -> Result<Session> {
        let Server { address: at, credentials, tls } = self.server.server()?;
        // Without this the driver could send the query to another server of the database.
        let filter = AllowListHostFilter::new([at.as_str()])
            .with_context(|| format!("cannot resolve {at}"))?;
        let profile = ExecutionProfile::builder()
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .request_timeout(Some(TIMEOUT))
            .build();
        let mut builder = SessionBuilder::new()
            .known_node(&at)
            .host_filter(Arc::new(filter))
            .connection_timeout(TIMEOUT)
            .tls_context(tls)
            .default_execution_profile_handle(profile.into_handle());
        if let Some((user, password)) = credentials {
            builder = builder.user(user, password);
        }
        builder.build().await.map_err(|error| anyhow!("cannot connect to {at}: {error}"))
    }
}

/// A row of `SHOW BOTTLENECK`, in the order of its columns.
type Row = (
    i32,
    String,
    Option<String>,
    f64,
    f64,
    i64,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
);

/// The verdict, or a cause.
struct Line {
    rank: i32,
    why: String,
    level: Option<String>,
    waited_seconds: f64,
    share: f64,
    waits: i64,
    table_name: Option<String>,
    statement: Option<String>,
    user_name: Option<String>,
    explanation: String,
}

impl From<Row> for Line {
    fn from(row: Row) -> Self {
        let (
            rank,
            why,
            level,
            waited_seconds,
            share,
            waits,
            table_name,
            statement,
            user_name,
            explanation,
        ) = row;
        Self {
            rank,
            why,
            level,
            waited_seconds,
            share,
            waits,
            table_name,
            statement,
            user_name,
            explanation,
        }
    }
}

impl Line {
    fn json(&self) -> Value {
        json!({
            "rank": self.rank,
            "why": self.why,
            "level": self.level,
            "waited_seconds": self.waited_seconds,
            "share": self.share,
            "waits": self.waits,
            "table_name": self.table_name,
            "statement": self.statement,
            "user_name": self.user_name,
            "explanation": self.explanation,
        })
    }
}

/// Returns the verdict as a JSON object that contains the causes.
fn report(verdict: &Line, causes: &[Line]) -> Value {
    json!({
        "verdict": verdict.explanation,
        "why": verdict.why,
        "level": verdict.level,
        "waited_seconds": verdict.waited_seconds,
        "share": verdict.share,
        "waits": verdict.waits,
        "causes": causes.iter().map(Line::json).collect::<Vec<_>>(),
    })
}

fn table(causes: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["why", "level", "waited", "share", "waits", "table", "statement", "user"]);
    for cause in causes {
        table.add_row([
            cause.why.clone(),
            cause.level.clone().unwrap_or_default(),
            format!("{:.1} s", cause.waited_seconds),
            format!("{:.0} %", cause.share * 100.0),
            cause.waits.to_string(),
            cause.table_name.clone().unwrap_or_default(),
            cause.statement.clone().unwrap_or_default(),
            cause.user_name.clone().unwrap_or_default(),
        ]);
    }
    for number in [2, 3, 4] {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Line {
        let (level, table_name) = (Some("default".into()), Some("ks.t".into()));
        let (why, statement) = ("disk".into(), Some("SELECT v FROM ks.t WHERE k = ?".into()));
        let user = Some("ann".into());
        Line::from((1, why, level, 31.25, 0.75, 7, table_name, statement, user, "reads".into()))
    }

    #[test]
    fn causes_are_a_line_each() {
        let text = table(&[cause()]).to_string();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let header = ["why", "level", "waited", "share", "waits", "table", "statement", "user"];
        assert_eq!(lines[0], header);
        assert_eq!(lines[1][..8], ["disk", "default", "31.2", "s", "75", "%", "7", "ks.t"]);
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn json_holds_verdict_and_causes() {
        let verdict = Line { rank: 0, explanation: "disk: 75 %".into(), ..cause() };
        let report = report(&verdict, &[cause()]);
        assert_eq!((&report["verdict"], &report["why"]), (&json!("disk: 75 %"), &json!("disk")));
        assert_eq!(report["causes"][0]["statement"], "SELECT v FROM ks.t WHERE k = ?");
        assert_eq!(report["causes"][0]["user_name"], "ann");
        assert_eq!(report["causes"][0]["waited_seconds"], 31.25);
    }
}

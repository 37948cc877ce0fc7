//! What a server did between two samples.

use std::collections::HashMap;
use std::time::Duration;

use super::sample::{Listed, Part, Sample};

/// A table of the screen: its title, header and rows of texts.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(super) title: String,
    pub(super) header: Vec<&'static str>,
    /// Widths of the columns; the last one takes the rest of the line.
    pub(super) widths: Vec<u16>,
    pub(super) rows: Vec<Vec<String>>,
    /// Why the rows cannot be read.
    pub(super) error: Option<String>,
}

/// What a server did between two samples.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// The line of the load.
    pub(super) load: String,
    pub(super) bottleneck: String,
    pub(super) tables: Vec<Shown>,
}

/// Figures of a fingerprint between two samples.
struct Executed {
    rate: f64,
    /// Part of the interval for which such statements ran, over all clients.
    busy: f64,
    mean_millis: f64,
}

impl Activity {
    /// Compares two samples.
    pub(crate) fn between(before: &Sample, after: &Sample) -> Self {
        let seconds = after.at.since(before.at).max(Duration::from_millis(1)).as_secs_f64();
        Self {
            load: load(before, after, seconds),
            bottleneck: bottleneck(&after.bottleneck),
            tables: vec![
                causes(&after.bottleneck),
                levels(before, after, seconds),
                statements(&after.statements),
                transactions(&after.transactions),
                statistics(before, after, seconds),
            ],
        }
    }
}

/// Returns the sum of a column.
fn sum(part: &Part, column: &str) -> f64 {
    part.as_ref().map_or(0.0, |listed| listed.iter().map(|row| row.number(column)).sum())
}

fn load(before: &Sample, after: &Sample, seconds: f64) -> String {
    let delta =
        |column: &str| (sum(&after.statistics, column) - sum(&before.statistics, column)).max(0.0);
    let (count, total) = (delta("count"), delta("total_seconds"));
    let mean = if count > 0.0 { total / count * 1e3 } else { 0.0 };
    let listed = |state: &str| {
        let is_it =
            |listed: &Listed| listed.iter().filter(|row| row.text("state") == state).count();
        after.statements.as_ref().map_or(0, is_it)
    };
    format!(
        "statements {:.0}/s  mean {mean:.2} ms  errors {:.1}/s  conflicts {:.1}/s  rows read {:.0}/s  \
         running {}  queued {}  clients {}",
        count / seconds,
        delta("errors") / seconds,
        delta("conflicts") / seconds,
        delta("rows_read") / seconds,
        listed("running"),
        listed("queued"),
        after.clients.as_ref().map_or(0, Listed::len),
    )
}

fn bottleneck(part: &Part) -> String {
    match part {
        Ok(listed) if listed.len() == 0 => "the server does not measure waits".to_owned(),
        Ok(listed) => listed.row(0).text("explanation"),
        Err(error) => error.clone(),
    }
}

fn shown(
    title: impl Into<String>,
    columns: &[(&'static str, u16)],
    rows: Result<Vec<Vec<String>>, String>,
) -> Shown {
    let (rows, error) = match rows {
        Ok(rows) => (rows, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let (header, widths) = columns.iter().copied().unzip();
    Shown { title: title.into(), header, widths, rows, error }
}

fn causes(part: &Part) -> Shown {
    let rows = part.clone().map(|listed| {
        let causes = listed.iter().filter(|row| row.number("rank") > 0.0);
        causes
            .map(|row| {
                vec![
                    row.text("why"),
                    row.text("level"),
                    format!("{:.1}", row.number("waited_seconds")),
                    format!("{:.0} %", row.number("share") * 100.0),
                    row.text("table_name"),
                    row.text("statement"),
                ]
            })
            .collect()
    });
    let columns = [
        ("WAITS FOR", 10),
        ("LEVEL", 12),
        ("SECONDS", 8),
        ("SHARE", 6),
        ("TABLE", 20),
        ("STATEMENT", 0),
    ];
    shown("waits of the last 10 s", &columns, rows)
}

fn levels(before: &Sample, after: &Sample, seconds: f64) -> Shown {
    let key = |row: super::sample::Row<'_>| (row.text("level"), row.text("class"));
    let known: HashMap<_, _> =
        before.levels.iter().flat_map(Listed::iter).map(|row| (key(row), row)).collect();
    let rows = after.levels.clone().map(|listed| {
        let rows = listed.iter().map(|row| {
            let rate = |column: &str| {
                let was = known.get(&key(row)).map_or(0.0, |was| was.number(column));
                (row.number(column) - was).max(0.0) / seconds
            };
            vec![
                row.text("level"),
                row.text("class"),
                row.text("shares"),
                row.text("running"),
                row.text("waiting"),
                format!("{:.0}", rate("admitted")),
                format!("{:.1}", rate("refused")),
                format!("{:.1}", rate("throttled")),
                format!("{:.2}", rate("waited_seconds")),
            ]
        });
        rows.collect()
    });
    let columns = [
        ("LEVEL", 16),
        ("CLASS", 8),
        ("SHARES", 7),
        ("RUNNING", 8),
        ("WAITING", 8),
        ("ADMITTED/S", 11),
        ("REFUSED/S", 10),
        ("THROTTLED/S", 12),
        ("WAITING S/S", 0),
    ];
    shown("service levels", &columns, rows)
}

fn statements(part: &Part) -> Shown {
    let rows = part.clone().map(|listed| {
        let rows = listed.iter().map(|row| {
            vec![
                row.text("id"),
                format!("{:.1}", row.number("age_seconds")),
                row.text("state"),
                row.text("waits_for"),
                row.text("rows_read"),
                row.text("client"),
                row.text("level"),
                row.text("statement"),
            ]
        });
        rows.collect()
    });
    let columns = [
        ("ID", 16),
        ("AGE S", 8),
        ("STATE", 8),
        ("WAITS FOR", 10),
        ("ROWS READ", 10),
        ("CLIENT", 24),
        ("LEVEL", 10),
        ("STATEMENT", 0),
    ];
    shown("running statements (KILL STATEMENT id ends one)", &columns, rows)
}

fn transactions(part: &Part) -> Shown {
    let rows = part.clone().map(|listed| {
        // Other transactions belong to running statements.
        let open = listed.iter().filter(|row| !row.text("id").is_empty());
        open.map(|row| {
            vec![
                row.text("id"),
                format!("{:.0}", row.number("age_seconds")),
                format!("{:.0}", row.number("idle_seconds")),
                row.text("isolation"),
                row.text("client"),
                row.text("statement"),
            ]
        })
        .collect()
    });
    let columns = [
        ("ID", 37),
        ("AGE S", 7),
        ("IDLE S", 7),
        ("ISOLATION", 20),
        ("CLIENT", 24),
        ("LAST STATEMENT", 0),
    ];
    shown("open transactions (KILL TRANSACTION id ends one)", &columns, rows)
}

fn statistics(before: &Sample, after: &Sample, seconds: f64) -> Shown {
    let key = |row: super::sample::Row<'_>| row.text("fingerprint");
    let known: HashMap<_, _> =
        before.statistics.iter().flat_map(Listed::iter).map(|row| (key(row), row)).collect();
    let rows = after.statistics.clone().map(|listed| {
        let mut rows: Vec<(Executed, Vec<String>)> = listed
            .iter()
            .map(|row| {
                let delta = |column: &str| {
                    let was = known.get(&key(row)).map_or(0.0, |was| was.number(column));
                    (row.number(column) - was).max(0.0)
                };
                let (count, total) = (delta("count"), delta("total_seconds"));
                let executed = Executed {
                    rate: count / seconds,
                    busy: total / seconds,
                    mean_millis: if count > 0.0 { total / count * 1e3 } else { 0.0 },
                };
                let millis = |column: &str| format!("{:.2}", row.number(column) / 1e3);
                let texts = vec![
                    format!("{:.0}", executed.rate),
                    format!("{:.2}", executed.mean_millis),
                    millis("p50_micros"),
                    millis("p99_micros"),
                    row.text("count"),
                    row.text("errors"),
                    row.text("conflicts"),
                    row.text("table_name"),
                    row.text("statement"),
                ];
                (executed, texts)
            })
            .collect();
        // The busiest of the interval; among idle ones the order of the server stays.
        rows.sort_by(|(a, _), (b, _)| b.busy.total_cmp(&a.busy));
        rows.into_iter().map(|(_, texts)| texts).collect()
    });
    let columns = [
        ("NOW/S", 7),
        ("MEAN MS", 9),
        ("P50 MS", 8),
        ("P99 MS", 9),
        ("COUNT", 10),
        ("ERRORS", 7),
        ("LOST", 6),
        ("TABLE", 20),
        ("STATEMENT", 0),
    ];
    shown("statements by load (p50, p99 and counts since the start)", &columns, rows)
}

#[cfg(test)]
mod tests {
    use carnet::{DataType, Value};
    use carnet_base::Moment;
    use carnet_cql::result::{ColumnSpec, Rows};

    use super::*;

    fn listed(columns: &[(&str, DataType)], rows: &[Vec<Value>]) -> Part {
        let spec = |(name, of): &(&str, DataType)| ColumnSpec::new("k", "t", *name, of.clone());
        let columns: Vec<ColumnSpec> = columns.iter().map(spec).collect();
        let row = |row: &Vec<Value>| row.iter().map(|value| Some(value.serialize())).collect();
        let rows: Vec<Vec<_>> = rows.iter().map(row).collect();
        let rows = Rows { columns: columns.into(), rows: rows.into(), paging_state: None };
        Listed::new(&rows).map_err(|error| error.to_string())
    }

    fn sample(seconds: u64, counts: [(&str, i64, f64); 2]) -> Sample {
        let columns = [
            ("fingerprint", DataType::Text),
            ("count", DataType::Bigint),
            ("total_seconds", DataType::Double),
        ];
        let rows = counts.map(|(id, count, total)| {
            vec![Value::Text(id.into()), Value::Bigint(count), Value::Double(total)]
        });
        let none = || Err("no permission".to_owned());
        Sample {
            at: Moment(Duration::from_secs(seconds)),
            bottleneck: none(),
            levels: none(),
            statements: none(),
            transactions: none(),
            statistics: listed(&columns, &rows),
            clients: none(),
        }
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let before = sample(10, [("slow", 100, 50.0), ("fast", 1_000, 1.0)]);
        let after = sample(12, [("slow", 100, 50.0), ("fast", 1_400, 1.2)]);
        let activity = Activity::between(&before, &after);
        assert!(activity.load.starts_with("statements 200/s  mean 0.50 ms  "), "{}", activity.load);
        let rows = &activity.tables[4].rows;
        assert_eq!(rows[0][..2], ["200", "0.50"], "the busiest one of the interval comes first");
        assert_eq!(rows[1][..2], ["0", "0.00"]);
        assert_eq!(activity.bottleneck, "no permission");
        assert_eq!(activity.tables[1].error.as_deref(), Some("no permission"));
    }

    #[test]
    fn own_statements_are_no_load() {
        let columns = [("statement", DataType::Text), ("count", DataType::Bigint)];
        let row = |text: &str| vec![Value::Text(text.into()), Value::Bigint(100)];
        let own = "SELECT * FROM system_views.statement_statistics";
        let all = listed(&columns, &[row(own), row("SELECT v FROM k.t WHERE k = ?")]).unwrap();
        let mut after = sample(12, [("slow", 0, 0.0), ("fast", 0, 0.0)]);
        after.statistics = Ok(all.without_own());
        let before = Sample { statistics: Ok(Listed::default()), ..sample(10, [("", 0, 0.0); 2]) };
        let activity = Activity::between(&before, &after);
        assert!(activity.load.starts_with("statements 50/s "), "{}", activity.load);
        assert_eq!(activity.tables[4].rows.len(), 1);
    }
}

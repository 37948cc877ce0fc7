//! Reports: an aligned table on a terminal, Markdown, and a plot.

mod markdown;
mod svg;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
pub(crate) use table::table;

use crate::record::Record;

/// Prints Markdown, and writes a plot if requested.
pub(crate) fn run(results: &[PathBuf], svg: Option<&Path>) -> Result<()> {
    let records = read(results)?;
    ensure!(!records.is_empty(), "there are no results in those files");
    let groups = groups(records);
    print!("{}", markdown::render(&groups));
    if let Some(path) = svg {
        fs::write(path, svg::render(&groups))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

fn read(results: &[PathBuf]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in results {
        let text = fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let record = serde_json::from_str(line)
                .with_context(|| format!("{}:{} is no result", path.display(), number + 1))?;
            records.push(record);
        }
    }
    Ok(records)
}

/// Results that are compared with each other.
struct Group {
    title: String,
    /// Subjects in the order of their first result.
    subjects: Vec<String>,
    /// Numbers of threads, ascending.
    threads: Vec<usize>,
    records: Vec<Record>,
}

impl Group {
    fn get(&self, subject: &str, threads: usize) -> Option<&Record> {
        // The last one: a repeated measurement may be appended to the file.
        let mut of = self.records.iter().rev();
        of.find(|record| record.threads == threads && record.subject() == subject)
    }

    fn at(&self, threads: usize) -> impl Iterator<Item = &Record> {
        self.subjects.iter().filter_map(move |subject| self.get(subject, threads))
    }
}

fn groups(records: Vec<Record>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for record in records {
        let title = record.title();
        let at = groups.iter().position(|group| group.title == title).unwrap_or_else(|| {
            let (subjects, threads, records) = (Vec::new(), Vec::new(), Vec::new());
            groups.push(Group { title, subjects, threads, records });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if !group.subjects.contains(&record.subject()) {
            group.subjects.push(record.subject());
        }
        if let Err(place) = group.threads.binary_search(&record.threads) {
            group.threads.insert(place, record.threads);
        }
        group.records.push(record);
    }
    groups
}

/// Formats thousands with at least two digits.
fn thousands(number: f64) -> String {
    let digits = if number < 10_000.0 { 1 } else { 0 };
    format!("{:.digits$}", number / 1e3)
}

/// Formats microseconds with at least two digits.
fn micros(number: f64) -> String {
    let digits = if number < 10.0 { 1 } else { 0 };
    format!("{number:.digits$}")
}

/// Formats aborts per commit as a percentage; empty if there were none.
fn aborts(share: f64) -> String {
    if share > 0.0 { format!("{:.1} %", share * 100.0) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::blank;

    fn result(engine: &str, threads: usize, rate: f64) -> Record {
        Record {
            keys_per_second: rate,
            keys_per_second_min: rate * 0.9,
            keys_per_second_max: rate * 1.1,
            p50_us: 5.25,
            p99_us: 125.0,
            passes: 5,
            ..blank(engine, threads)
        }
    }

    fn some() -> Vec<Group> {
        groups(vec![
            result("carnet", 2, 900_000.0),
            result("rocksdb", 2, 300_000.0),
            result("carnet", 1, 500_000.0),
            result("rocksdb", 1, 250_000.0),
            result("rocksdb-unordered", 1, 200_000.0),
        ])
    }

    #[test]
    fn markdown_compares_with_best_rocksdb() {
        let text = markdown::render(&some());
        assert!(text.contains("### write · log without fsync · memtable 1 GiB"), "{text}");
        assert!(text.contains("| carnet | **500** · 2.0× | **900** · 3.0× |"), "{text}");
        assert!(text.contains("| rocksdb-unordered | **200** · 0.8× | – |"), "{text}");
        assert!(text.contains("| carnet | 5.2 / 125 | 5.2 / 125 |"), "{text}");
    }

    #[test]
    fn plot_has_a_bar_per_result() {
        let text = svg::render(&some());
        assert_eq!(text.matches("class=\"bar").count(), 5, "{text}");
        assert_eq!(text.matches("<g").count(), text.matches("</g>").count());
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn table_is_aligned() {
        let table = table(&[result("carnet", 1, 500_000.0), result("rocksdb", 1, 250_000.0)]);
        let lines: Vec<&str> = table.lines().collect();
        let widths: Vec<usize> = lines[1..].iter().map(|line| line.chars().count()).collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        assert!(lines[2].contains("2.00"), "{table}");
    }
}

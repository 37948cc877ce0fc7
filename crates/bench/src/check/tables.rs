//! Tables of figures in the documents.
//!
//! A page has the table of a group between `<!-- figures: GROUP -->` and `<!-- end of figures -->`, and
//! a single figure between `<!-- figure: NAME -->` and `<!-- end -->`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use carnet_base::{Error, Result};

use super::group::{Figure, Group};
use super::origin::Origin;
use super::record::{Record, Records};

/// Begins of the marks before a table and before a single figure, and the marks behind them.
const TABLE: [&str; 2] = ["<!-- figures: ", "<!-- end of figures -->"];
const SINGLE: [&str; 2] = ["<!-- figure: ", "<!-- end -->"];

/// Returns the pages of the directory, and the README above it.
pub(super) fn paths(docs: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| {
        Error::unavailable(format!("{} cannot be listed", docs.display())).with_source(error)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(docs).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    let readme = docs.join("../README.md");
    paths.extend(readme.exists().then_some(readme));
    Ok(paths)
}

/// Makes the tables and the single figures of all pages anew.
pub(super) fn write(docs: &Path, groups: &[Group], records: &Records) -> Result<()> {
    for path in paths(docs)? {
        let of_page = |error| {
            Error::unavailable(format!("{} cannot be read or written", path.display()))
                .with_source(error)
        };
        let page = std::fs::read_to_string(&path).map_err(of_page)?;
        let made = make(&page, groups, records)
            .map_err(|error| Error::invalid(path.display().to_string()).with_source(error))?;
        if made != page {
            std::fs::write(&path, made).map_err(of_page)?;
        }
    }
    Ok(())
}

/// Returns a page with the tables and the single figures that the records make.
pub(super) fn make(page: &str, groups: &[Group], records: &Records) -> Result<String> {
    let tables = replace(page, TABLE, |name| {
        let group = groups.iter().find(|group| group.name == name);
        group.map(|group| format!("\n{}", table(group, records)))
    })?;
    replace(&tables, SINGLE, |name| {
        let mut figures = groups.iter().flat_map(|group| &group.figures);
        figures.find(|figure| figure.name == name)?;
        let record = records.get(name);
        Some(record.map_or_else(|| "not recorded".to_owned(), |record| number(record.value)))
    })
}

/// Replaces the text behind each mark with the text of the marked name.
fn replace(
    page: &str,
    [begin, end]: [&str; 2],
    text: impl Fn(&str) -> Option<String>,
) -> Result<String> {
    let mut parts = page.split(begin);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").unwrap_or((part, ""));
        let (_, rest) = rest
            .split_once(end)
            .ok_or_else(|| Error::invalid(format!("{begin}{name} has no {end}")))?;
        let text = text(name).ok_or_else(|| {
            Error::invalid(format!("{begin}{name}: there is no such group or figure"))
        })?;
        made += &format!("{begin}{name} -->{text}{end}{rest}");
    }
    Ok(made)
}

/// Returns the table of a group, and where it was recorded.
fn table(group: &Group, records: &Records) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for figure in &group.figures {
        if !columns.contains(&&*figure.column) {
            columns.push(&figure.column);
        }
        if records.contains_key(&figure.name) && !rows.contains(&&*figure.row) {
            rows.push(&figure.row);
        }
    }
    if rows.is_empty() {
        return format!("Not recorded yet: `check {}` measures it.\n", group.name);
    }
    let heads: Vec<Head<'_>> = columns.iter().map(|title| Head::new(title, group)).collect();
    let mut text = format!("| {} |", group.heading);
    for head in &heads {
        let _ = write!(text, " {} |", head.text());
    }
    text += &format!("\n| --- |{}\n", " ---: |".repeat(heads.len()));
    for row in rows {
        let _ = write!(text, "| {row} |");
        for head in &heads {
            let mut figures = group.figures.iter();
            let figure = figures.find(|it| it.row == row && it.column == head.title);
            let _ =
                write!(text, " {} |", figure.map_or_else(String::new, |it| head.cell(it, records)));
        }
        text.push('\n');
    }
    text + "\n" + &origins(group, records)
}

/// Head of a column. Its mark is in the head if all its figures have the same one, otherwise in the cells.
struct Head<'t> {
    title: &'t str,
    mark: Option<&'static str>,
}

fn mark(figure: &Figure) -> &'static str {
    figure.better.map_or("", |better| better.mark())
}

impl<'t> Head<'t> {
    fn new(title: &'t str, group: &Group) -> Self {
        let mut marks = group.figures.iter().filter(|it| it.column == title).map(mark);
        let first = marks.next();
        Self { title, mark: first.filter(|first| marks.all(|mark| mark == *first)) }
    }

    fn text(&self) -> String {
        format!("{} {}", self.title, self.mark.unwrap_or_default()).trim().to_owned()
    }

    fn cell(&self, figure: &Figure, records: &Records) -> String {
        let Some(record) = records.get(&figure.name) else { return "–".to_owned() };
        let mark = if self.mark.is_none() { mark(figure) } else { "" };
        let seen = record.low.zip(record.high).filter(|_| figure.better.is_some());
        let spread = seen
            .map(|(low, high)| format!(" ({} to {})", number(low), number(high)))
            .unwrap_or_default();
        format!("{}{spread} {mark}", number(record.value)).trim().to_owned()
    }
}

/// Returns the commands of a table, and the machines, dates and commits of its figures. The origin of
/// most figures comes first, and others name their rows.
fn origins(group: &Group, records: &Records) -> String {
    let mut commands: Vec<String> = Vec::new();
    let mut origins: Vec<(&Origin, Vec<&str>)> = Vec::new();
    for figure in &group.figures {
        let Some(Record { origin, .. }) = records.get(&figure.name) else { continue };
        for command in figure.commands().map(|command| format!("`{command}`")) {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        match origins.iter_mut().find(|(other, _)| *other == origin) {
            Some((_, rows)) => rows.push(&figure.row),
            None => origins.push((origin, vec![&figure.row])),
        }
    }
    origins.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let origins = origins.into_iter().enumerate().map(|(at, (origin, mut rows))| {
        rows.dedup();
        let rows = if at == 0 { String::new() } else { format!(" ({})", rows.join("; ")) };
        format!("{}, {}, {}{rows}", origin.machine, origin.date, origin.commit)
    });
    let origins: Vec<String> = origins.collect();
    format!("Commands: {}. Recorded: {}.\n", commands.join(", "), origins.join("; "))
}

/// Writes a number with commas between thousands.
fn number(value: f64) -> String {
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(a, b)| (a, Some(b)));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or_else(|| grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::super::group::{Better, Found};
    use super::super::groups::groups;
    use super::super::record::read;
    use super::super::take::text;
    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    #[test]
    fn pages_have_the_recorded_figures() {
        let groups = groups();
        let records = read(&docs().join("figures.json"), &groups).unwrap();
        let text = std::fs::read_to_string(docs().join("figures.json")).unwrap();
        let all = text.lines().filter(|line| line.trim_start().starts_with('{')).count();
        assert_eq!(records.len(), all, "records of figures that are no longer measured");
        for path in paths(&docs()).unwrap() {
            let page = std::fs::read_to_string(&path).unwrap();
            let made = make(&page, &groups, &records).unwrap();
            let differs = page.lines().zip(made.lines()).find(|(page, made)| page != made);
            assert!(
                page == made,
                "{} differs from docs/figures.json, carnet-bench check --pages makes it anew: {differs:?}",
                path.display()
            );
        }
    }

    #[test]
    fn every_group_has_a_place_on_one_page() {
        let pages: String = paths(&docs())
            .unwrap()
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        for group in groups() {
            let mark = format!("{}{} -->", TABLE[0], group.name);
            assert_eq!(pages.matches(&mark).count(), 1, "places of the group {}", group.name);
        }
    }

    /// Tables between marks are made from the records; others would be forgotten when figures change.
    #[test]
    fn performance_page_has_no_table_by_hand() {
        let page = std::fs::read_to_string(docs().join("performance.md")).unwrap();
        let outside = replace(&page, TABLE, |_| Some(String::new())).unwrap();
        let table = outside.lines().find(|line| line.trim_start().starts_with('|'));
        assert_eq!(table, None, "a table of performance.md is outside of the marks");
    }

    #[test]
    fn table_has_rows_and_origins() {
        let mut group = Group::new("loads", "load");
        for row in ["one", "two", "three"] {
            group.add((row, row), ("rate", "per second"), "carnet-bench merge", text("", 0));
            let ratio =
                group.add((row, row), ("ratio", "to idle"), "carnet-bench merge", text("", 0));
            ratio.better(Better::Less);
        }
        let mut records = Records::new();
        for (at, figure) in group.figures.iter().enumerate().take(3) {
            let commit = if at < 2 { "abc" } else { "def" };
            let origin = Origin {
                machine: "2 × X".to_owned(),
                date: "2026-01-02".to_owned(),
                commit: commit.to_owned(),
            };
            let found = Found { value: 12_345.0, low: 1.5, high: 20_000.0 };
            records.insert(figure.name.clone(), Record::new(figure, &found, &origin));
        }
        let page = "a\n<!-- figures: loads -->\n| old |\n<!-- end of figures -->\n\
                    b <!-- figure: loads.one.rate -->7<!-- end --> c\n";
        let made = make(page, &[group], &records).unwrap();
        let wanted = "a\n<!-- figures: loads -->\n\
            | load | per second | to idle ↓ |\n| --- | ---: | ---: |\n\
            | one | 12,345 | 12,345 (1.5 to 20,000) |\n\
            | two | 12,345 | – |\n\n\
            Commands: `carnet-bench merge`. Recorded: 2 × X, 2026-01-02, abc; \
            2 × X, 2026-01-02, def (two).\n<!-- end of figures -->\n\
            b <!-- figure: loads.one.rate -->12,345<!-- end --> c\n";
        assert_eq!(made, wanted);
        let error = make("<!-- figures: no -->\n<!-- end of figures -->", &[], &records);
        assert!(error.unwrap_err().to_string().contains("there is no such group"));
        assert!(make("<!-- figures: no -->", &[], &records).is_err());
    }
}

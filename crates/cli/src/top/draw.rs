//! A frame of the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::activity::{Activity, Shown};

/// Maximum number of rows of a table; the last table takes the rest of the screen.
const ROWS_MAX: usize = 8;
/// Maximum number of rows of the last table with `--once`.
const LAST_ROWS_MAX: usize = 20;

/// Returns the number of lines of a frame that shows all.
pub(crate) fn height(activity: &Activity) -> u16 {
    let tables = &activity.tables;
    let last = tables.len().saturating_sub(1);
    let lines = tables
        .iter()
        .enumerate()
        .map(|(at, shown)| lines(shown, if at == last { LAST_ROWS_MAX } else { ROWS_MAX }));
    HEAD_LINES + lines.sum::<u16>()
}

/// Lines above the tables.
const HEAD_LINES: u16 = 3;

/// Draws a frame.
pub(crate) fn draw(frame: &mut Frame<'_>, name: &str, activity: &Activity) {
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let tables = &activity.tables;
    let last = tables.len().saturating_sub(1);
    let mut places = vec![Constraint::Length(HEAD_LINES)];
    for (at, shown) in tables.iter().enumerate() {
        places.push(match at {
            _ if at == last => Constraint::Min(0),
            _ => Constraint::Length(lines(shown, ROWS_MAX)),
        });
    }
    let areas = Layout::vertical(places).split(frame.area());
    let head = vec![
        Line::styled(format!("carnet top  {name}"), bold),
        Line::raw(activity.load.clone()),
        Line::raw(format!("bottleneck: {}", activity.bottleneck)),
    ];
    frame.render_widget(Paragraph::new(head), areas[0]);
    for (shown, area) in tables.iter().zip(&areas[1..]) {
        table(frame, shown, *area);
    }
}

/// Returns the lines of a table: an empty one, its title, its header, and its rows or why there are none.
fn lines(shown: &Shown, rows_max: usize) -> u16 {
    let rows = shown.rows.len().clamp(1, rows_max);
    2 + u16::try_from(rows).unwrap_or(u16::MAX) + u16::from(!shown.rows.is_empty())
}

fn table(frame: &mut Frame<'_>, shown: &Shown, area: Rect) {
    let [_, title, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)])
            .areas(area);
    let (bold, dim) = (Modifier::BOLD, Modifier::DIM);
    let name = Line::styled(shown.title.clone(), Style::default().add_modifier(bold));
    frame.render_widget(Paragraph::new(name), title);
    if shown.rows.is_empty() {
        let why = shown.error.as_deref().unwrap_or("none");
        frame.render_widget(Paragraph::new(Line::raw(format!("  {why}"))), rest);
        return;
    }
    let width = |width: &u16| match width {
        0 => Constraint::Min(10),
        width => Constraint::Length(*width),
    };
    let rows =
        shown.rows.iter().map(|row| Row::new(row.iter().map(|text| Cell::from(one_line(text)))));
    let header = Row::new(shown.header.iter().copied()).style(Style::default().add_modifier(dim));
    let table = Table::new(rows, shown.widths.iter().map(width)).header(header).column_spacing(1);
    frame.render_widget(table, rest);
}

/// Returns a text without control characters, which a name may contain.
fn one_line(text: &str) -> String {
    text.chars().map(|of| if of.is_control() { ' ' } else { of }).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn frame_shows_rows_and_reasons() {
        let shown = |rows: Vec<Vec<String>>, error: Option<&str>| Shown {
            title: "statements".to_owned(),
            header: vec!["ID", "TEXT"],
            widths: vec![4, 0],
            rows,
            error: error.map(str::to_owned),
        };
        let row = vec!["17".to_owned(), "SELECT\u{1b}[2J v".to_owned()];
        let activity = Activity {
            load: "statements 3/s".to_owned(),
            bottleneck: "none".to_owned(),
            tables: vec![shown(Vec::new(), Some("no permission")), shown(vec![row], None)],
        };
        let mut terminal = Terminal::new(TestBackend::new(40, height(&activity))).unwrap();
        terminal.draw(|frame| draw(frame, "db1", &activity)).unwrap();
        let lines: Vec<String> = terminal
            .backend()
            .buffer()
            .content()
            .chunks(40)
            .map(|line| {
                line.iter()
                    .map(ratatui::buffer::Cell::symbol)
                    .collect::<String>()
                    .trim_end()
                    .to_owned()
            })
            .collect();
        assert_eq!(
            lines,
            [
                "carnet top  db1",
                "statements 3/s",
                "bottleneck: none",
                "",
                "statements",
                "  no permission",
                "",
                "statements",
                "ID   TEXT",
                "17   SELECT [2J v",
            ]
        );
    }
}

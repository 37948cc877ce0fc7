//! The plot: a row per engine, a column per number of threads, a block per group.
//!
//! Bars start at zero and share one scale within a block, so that lengths compare across threads; a
//! thin line shows the slowest and the fastest pass. Carnet's bars have one colour, RocksDB's
//! another, all others are grey. There is no script and no external style sheet, so that it renders
//! in a README.

use std::fmt::Write;

use super::{Group, thousands};
use crate::record::Record;

const MARGIN: f64 = 16.0;
const NAMES_WIDTH: f64 = 190.0;
const PANEL_WIDTH: f64 = 190.0;
/// Width of the number after the longest bar of a panel.
const NUMBER_WIDTH: f64 = 52.0;
const ROW_HEIGHT: f64 = 19.0;
const BAR_HEIGHT: f64 = 12.0;
const TITLE_HEIGHT: f64 = 48.0;
const GAP: f64 = 22.0;

/// Draws all groups, one below the other.
pub(super) fn render(groups: &[Group]) -> String {
    let columns = groups.iter().map(|group| group.threads.len()).max().unwrap_or(1);
    let width = 2.0 * MARGIN + NAMES_WIDTH + columns as f64 * PANEL_WIDTH;
    let height: f64 = groups.iter().map(height_of).sum::<f64>() + 2.0 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>.title{{font-size:14px;font-weight:bold}}.head,.number{{fill:#555}}\
         .number{{font-size:11px}}.spread{{stroke:#222;stroke-width:1}}\
         .carnet{{fill:#0a7d5a}}.rocksdb{{fill:#c47a2c}}.other{{fill:#9aa5b1}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = MARGIN;
    for group in groups {
        let _ = writeln!(text, "<g transform=\"translate({MARGIN} {top:.1})\">");
        draw(&mut text, group);
        text.push_str("</g>\n");
        top += height_of(group);
    }
    text.push_str("</svg>\n");
    text
}

fn height_of(group: &Group) -> f64 {
    TITLE_HEIGHT + group.subjects.len() as f64 * ROW_HEIGHT + GAP
}

fn draw(text: &mut String, group: &Group) {
    let _ = writeln!(text, "<text class=\"title\" y=\"14\">{}</text>", escape(&group.title));
    let fastest = group.records.iter().map(|record| record.keys_per_second_max);
    let scale = (PANEL_WIDTH - NUMBER_WIDTH) / fastest.fold(1.0, f64::max);
    for (column, threads) in group.threads.iter().enumerate() {
        let x = NAMES_WIDTH + column as f64 * PANEL_WIDTH;
        let unit = if *threads == 1 { "thread" } else { "threads" };
        let first = if column == 0 { ", k keys/s" } else { "" };
        let _ = writeln!(
            text,
            "<text class=\"head\" x=\"{x:.1}\" y=\"36\">{threads} {unit}{first}</text>"
        );
    }
    for (row, subject) in group.subjects.iter().enumerate() {
        let y = TITLE_HEIGHT + row as f64 * ROW_HEIGHT;
        let _ = writeln!(text, "<text y=\"{:.1}\">{}</text>", y + 10.0, escape(subject));
        for (column, threads) in group.threads.iter().enumerate() {
            let x = NAMES_WIDTH + column as f64 * PANEL_WIDTH;
            if let Some(record) = group.get(subject, *threads) {
                bar(text, record, x, y, scale);
            }
        }
    }
}

fn bar(text: &mut String, record: &Record, x: f64, y: f64, scale: f64) {
    let class = if record.engine.starts_with("carnet") {
        "carnet"
    } else if record.is_rocksdb() {
        "rocksdb"
    } else {
        "other"
    };
    let (length, slowest, fastest) = (
        record.keys_per_second * scale,
        x + record.keys_per_second_min * scale,
        x + record.keys_per_second_max * scale,
    );
    let middle = y + BAR_HEIGHT / 2.0;
    let _ = writeln!(
        text,
        "<rect class=\"bar {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" \
         height=\"{BAR_HEIGHT}\"/><path class=\"spread\" d=\"M{slowest:.1} {middle:.1}H{fastest:.1}\"/>\
         <text class=\"number\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        fastest + 4.0,
        y + 10.0,
        thousands(record.keys_per_second)
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

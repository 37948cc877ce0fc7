//! Pictures of a run, as Maelstrom draws them: latencies and rates over time, the messages of one
//! transaction, and an anomaly with its messages. No I/O.
//!
//! SVG is written as text: the pictures are lines, points and words, and need no library.

mod anomaly;
mod messages;
mod plots;
mod svg;

use crate::plan::Plan;
use crate::report::Report;
use crate::trace::{Request, Trace};

use self::svg::escaped;

/// A picture of a run.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of its file.
    pub file: &'static str,
    /// Title of the picture.
    pub title: String,
    /// The picture as an SVG document.
    pub svg: String,
}

/// Draws the pictures of a run.
///
/// # Errors
///
/// A sentence that says that the run was not recorded, or that no request was answered.
pub fn draw(report: &Report) -> Result<Vec<Picture>, String> {
    let Some(trace) = &report.trace else {
        return Err("the run was not recorded: its plan must set `traces`".to_owned());
    };
    let Some(median) = median(trace) else {
        return Err("there is nothing to draw: no request was answered".to_owned());
    };
    let mut pictures = vec![plots::latency(trace), plots::rate(trace)];
    pictures.push(messages::transaction(trace, median));
    if let (Some(history), Some(anomaly)) = (&report.verdict.history, &report.verdict.anomaly) {
        pictures.push(anomaly::dependencies(history, anomaly));
        pictures.extend(messages::anomaly(trace, history, anomaly));
    }
    Ok(pictures)
}

/// Returns the committed request of median latency, or any request if none committed.
fn median(trace: &Trace) -> Option<&Request> {
    let is_ok = |request: &&Request| request.outcome == carnet_checker::Outcome::Committed;
    let mut requests: Vec<&Request> = trace.requests.iter().filter(is_ok).collect();
    requests.sort_by_key(|request| request.until.since(request.since));
    requests.get(requests.len() / 2).copied().or(trace.requests.first())
}

/// Returns one HTML page with the pictures.
#[must_use]
pub fn page(report: &Report, plan: &Plan, pictures: &[Picture]) -> String {
    let summary = escaped(&report.to_json(plan).to_string());
    let explanation = escaped(report.verdict.explanation.trim_end());
    let shown =
        |picture: &Picture| format!("<h2>{}</h2>\n{}\n", escaped(&picture.title), picture.svg);
    let pictures: String = pictures.iter().map(shown).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <title>A run of carnet-maelstrom-test</title>\n\
         <style>body {{ font-family: sans-serif; margin: 2em }} pre {{ white-space: pre-wrap }}\
         </style></head><body>\n<h1>A run of carnet-maelstrom-test</h1>\n{pictures}\
         <h2>The verdict</h2>\n<pre>{explanation}</pre>\n<h2>The run</h2>\n<pre>{summary}</pre>\n\
         </body></html>\n"
    )
}

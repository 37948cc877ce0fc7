//! An anomaly: its transactions, and the dependencies between them, as Elle draws them.

use carnet_checker::{Anomaly, Dependency, History, Outcome, Transaction};

use super::Picture;
use super::svg::{Anchor, Svg, float};

/// Maximum number of drawn transactions, and of shown operations of one.
const TRANSACTIONS_MAX: usize = 20;
const OPS_MAX: usize = 12;

const LEFT: f64 = 20.0;
const TOP: f64 = 20.0;
const ROW: f64 = 70.0;
const BOX_HEIGHT: f64 = 28.0;
/// Approximate width of a character.
const CHARACTER: f64 = 6.2;

/// Draws the transactions of an anomaly in the order of their requests.
pub(super) fn dependencies(history: &History, anomaly: &Anomaly) -> Picture {
    let mut numbers = anomaly.transactions.clone();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.truncate(TRANSACTIONS_MAX);
    let label = |number: &usize| label(*number, &history.transactions()[*number]);
    let labels: Vec<String> = numbers.iter().map(label).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
    let width = float(longest) * CHARACTER + 20.0;
    let reasons = TOP + ROW * float(numbers.len());
    let height = reasons + 18.0 * float(anomaly.reasons.len()) + 20.0;
    let whole = anomaly.reasons.iter().map(|reason| reason.chars().count()).max();
    let right = (LEFT + width + 100.0 + 28.0 * float(anomaly.dependencies.len()))
        .max(LEFT + float(whole.unwrap_or_default()) * CHARACTER);
    let mut svg = Svg::new(right + 20.0, height);
    let y = |number: usize| {
        let place = numbers.iter().position(|other| *other == number);
        place.map(|place| TOP + ROW * float(place))
    };
    for (number, label) in numbers.iter().zip(&labels) {
        let Some(y) = y(*number) else { continue };
        svg.rectangle((LEFT, y), (width, BOX_HEIGHT));
        svg.text((LEFT + 10.0, y + 18.0), Anchor::Start, label);
    }
    for (place, Dependency { from, to, kind }) in anomaly.dependencies.iter().enumerate() {
        if let (Some(from), Some(to)) = (y(*from), y(*to)) {
            edge(&mut svg, LEFT + width, (from, to), 50.0 + 28.0 * float(place), kind);
        }
    }
    for (place, reason) in anomaly.reasons.iter().enumerate() {
        svg.text((LEFT, reasons + 18.0 * float(place)), Anchor::Start, reason);
    }
    let title = format!("The anomaly: {}", anomaly.kind);
    Picture { file: "anomaly.svg", title, svg: svg.finish() }
}

/// Draws a dependency at the right of the boxes.
fn edge(svg: &mut Svg, x: f64, (from, to): (f64, f64), bend: f64, kind: &str) {
    let colour = match kind {
        "ww" => "#c0392b",
        "wr" => "#2471a3",
        "rw" => "#7d3c98",
        _ => "#1e8449",
    };
    // An arrow leaves a box below the place where others arrive.
    let (from, to) = (from + BOX_HEIGHT * 0.7, to + BOX_HEIGHT * 0.3);
    svg.bow((x, from), bend * 1.3, (x, to), colour);
    svg.text((x + bend + 4.0, f64::midpoint(from, to) + 4.0), Anchor::Start, kind);
}

fn label(number: usize, transaction: &Transaction) -> String {
    let is_committed = transaction.outcome == Outcome::Committed;
    let shown = |op: &carnet_checker::Op| {
        if op.is_read() && !is_committed { format!("r({}) = ?", op.key()) } else { op.to_string() }
    };
    let ops: Vec<String> = transaction.ops.iter().take(OPS_MAX).map(shown).collect();
    let outcome = match transaction.outcome {
        Outcome::Committed => "",
        Outcome::Aborted => " (failed)",
        Outcome::Unknown => " (unknown)",
    };
    let more = if transaction.ops.len() > OPS_MAX { " …" } else { "" };
    format!("T{number}{outcome}: {}{more}", ops.join(", "))
}

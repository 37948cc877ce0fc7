//! Latencies and rates over time.

use std::time::Duration;

use carnet_base::Moment;
use carnet_checker::Outcome;

use super::Picture;
use super::svg::{Anchor, FAIL, INFO, OK, Svg, float};
use crate::trace::{Request, Trace};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 15.0;
const BOTTOM: f64 = 40.0;

const OUTCOMES: [(Outcome, &str, &str); 3] = [
    (Outcome::Committed, "ok", OK),
    (Outcome::Aborted, "fail", FAIL),
    (Outcome::Unknown, "info", INFO),
];

/// Quantiles per mille, and the colours of their lines.
const QUANTILES: [(usize, &str, &str); 3] =
    [(500, "p50", "#1b5e20"), (950, "p95", "#6a1b9a"), (1000, "max", "#b71c1c")];

/// Number of windows over the run for rates and quantiles.
const WINDOWS: usize = 40;

/// Time axis of a plot.
struct Time {
    begin: Moment,
    span: f64,
}

impl Time {
    fn of(trace: &Trace) -> Self {
        let begin = trace.requests.iter().map(|request| request.since).min().unwrap_or_default();
        let end = trace.requests.iter().map(|request| request.until).max().unwrap_or_default();
        Self { begin, span: end.since(begin).as_secs_f64().max(1e-3) }
    }

    fn seconds(&self, moment: Moment) -> f64 {
        moment.since(self.begin).as_secs_f64()
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.span * (WIDTH - LEFT - RIGHT)
    }

    /// Returns the window of a moment.
    fn window(&self, moment: Moment) -> usize {
        let share = self.seconds(moment) / self.span;
        (1..WINDOWS).take_while(|window| share * float(WINDOWS) >= float(*window)).count()
    }

    fn middle(&self, window: usize) -> f64 {
        self.x((float(window) + 0.5) * self.span / float(WINDOWS))
    }

    fn axis(&self, svg: &mut Svg) {
        let step = step(self.span);
        let ticks =
            (0..).map(|tick| float(tick) * step).take_while(|seconds| *seconds <= self.span);
        for seconds in ticks {
            let x = self.x(seconds);
            svg.line((x, HEIGHT - BOTTOM), (x, HEIGHT - BOTTOM + 4.0), "stroke=\"#333\"");
            let label = (x, HEIGHT - BOTTOM + 16.0);
            svg.text(label, Anchor::Middle, &format!("{} s", short(seconds)));
        }
        let (left, right) = ((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
        svg.line(left, right, "stroke=\"#333\"");
    }
}

/// Returns the distance of some ten marks on an axis: 1, 2 or 5 times a power of ten.
fn step(span: f64) -> f64 {
    let power = 10_f64.powf((span / 10.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| span / step <= 10.0)
        .unwrap_or(span)
}

/// Returns a number without the zeros behind its point.
fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn mark(svg: &mut Svg, y: f64, label: &str) {
    svg.line((LEFT, y), (WIDTH - RIGHT, y), "stroke=\"#ddd\"");
    svg.text((LEFT - 6.0, y + 4.0), Anchor::End, label);
}

/// Explains colours at the right.
fn legend(svg: &mut Svg, entries: &[(String, &str)]) {
    for (place, (name, colour)) in entries.iter().enumerate() {
        let y = TOP + 12.0 + 18.0 * float(place);
        svg.line((WIDTH - RIGHT + 8.0, y), (WIDTH - RIGHT + 24.0, y), &stroke(colour));
        svg.text((WIDTH - RIGHT + 30.0, y + 4.0), Anchor::Start, name);
    }
}

fn stroke(colour: &str) -> String {
    format!("stroke=\"{colour}\" stroke-width=\"3\"")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn latency_of(request: &Request) -> Duration {
    request.until.since(request.since)
}

/// Draws each request as a point, by its moment and latency, and quantiles of the answered ones.
pub(super) fn latency(trace: &Trace) -> Picture {
    let (mut svg, time) = (Svg::new(WIDTH, HEIGHT), Time::of(trace));
    let latencies = || trace.requests.iter().map(|request| millis(latency_of(request)).max(1e-3));
    // Whole powers of ten below and above.
    let low = latencies().fold(f64::INFINITY, f64::min).log10().floor();
    let high = latencies().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let y = |millis: f64| {
        let share = (millis.max(1e-3).log10() - low) / (high - low);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let mut power = low;
    while power <= high {
        mark(&mut svg, y(10_f64.powf(power)), &format!("{} ms", short(10_f64.powf(power))));
        power += 1.0;
    }
    time.axis(&mut svg);
    let mut entries = Vec::new();
    for (outcome, name, colour) in OUTCOMES {
        let of = || trace.requests.iter().filter(|request| request.outcome == outcome);
        for request in of() {
            let millis = millis(latency_of(request));
            let place = (time.x(time.seconds(request.since)), y(millis));
            let Request { process, node, .. } = request;
            svg.point(place, colour, &format!("c{process} at n{node}: {name}, {millis:.2} ms"));
        }
        entries.push((format!("{name}: {}", of().count()), colour));
    }
    for (per_mille, name, colour) in QUANTILES {
        svg.curve(&quantile(trace, &time, per_mille, y), colour);
        entries.push((name.to_owned(), colour));
    }
    legend(&mut svg, &entries);
    let title = "Latency of requests".to_owned();
    Picture { file: "latency.svg", title, svg: svg.finish() }
}

fn quantile(
    trace: &Trace,
    time: &Time,
    per_mille: usize,
    y: impl Fn(f64) -> f64,
) -> Vec<(f64, f64)> {
    let mut windows: Vec<Vec<Duration>> = vec![Vec::new(); WINDOWS];
    for request in trace.requests.iter().filter(|request| request.outcome == Outcome::Committed) {
        windows[time.window(request.since)].push(latency_of(request));
    }
    let mut points = Vec::new();
    for (window, latencies) in windows.iter_mut().enumerate() {
        latencies.sort_unstable();
        let place = (latencies.len() * per_mille).div_ceil(1000).max(1) - 1;
        points.extend(latencies.get(place).map(|time_| (time.middle(window), y(millis(*time_)))));
    }
    points
}

/// Draws the number of answers a second, by outcome.
pub(super) fn rate(trace: &Trace) -> Picture {
    let (mut svg, time) = (Svg::new(WIDTH, HEIGHT), Time::of(trace));
    let seconds = time.span / float(WINDOWS);
    let rates = OUTCOMES.map(|(outcome, ..)| {
        let mut counts = vec![0; WINDOWS];
        for request in trace.requests.iter().filter(|request| request.outcome == outcome) {
            counts[time.window(request.until)] += 1;
        }
        counts.into_iter().map(|count| float(count) / seconds).collect::<Vec<f64>>()
    });
    let highest = rates.iter().flatten().copied().fold(1.0, f64::max);
    let y = |rate: f64| HEIGHT - BOTTOM - rate / highest * (HEIGHT - TOP - BOTTOM);
    let step = step(highest);
    for rate in (0..).map(|tick| float(tick) * step).take_while(|rate| *rate <= highest) {
        mark(&mut svg, y(rate), &format!("{}/s", short(rate)));
    }
    time.axis(&mut svg);
    let mut entries = Vec::new();
    for ((outcome, name, colour), rates) in OUTCOMES.into_iter().zip(&rates) {
        let count = trace.requests.iter().filter(|request| request.outcome == outcome).count();
        entries.push((format!("{name}: {count}"), colour));
        if count > 0 {
            let points = rates.iter().enumerate();
            let points: Vec<_> = points.map(|(at, rate)| (time.middle(at), y(*rate))).collect();
            svg.curve(&points, colour);
        }
    }
    legend(&mut svg, &entries);
    Picture { file: "rate.svg", title: "Answers a second".to_owned(), svg: svg.finish() }
}

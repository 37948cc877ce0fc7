//! Messages between clients, nodes and services: a line for each of them, time from top to bottom.

use std::collections::BTreeSet;

use carnet_base::Moment;
use carnet_checker::{Anomaly, History};

use super::Picture;
use super::svg::{Anchor, INFO, Svg, float};
use crate::net::Party;
use crate::trace::{Request, Sent, Trace};

/// Maximum number of drawn messages.
const MESSAGES_MAX: usize = 120;
/// Maximum number of transactions of an anomaly whose messages are drawn.
const TRANSACTIONS_MAX: usize = 6;

const COLUMN: f64 = 230.0;
const LEFT: f64 = 130.0;
const TOP: f64 = 46.0;
const ROW: f64 = 16.0;

/// Draws the messages of the client and of the node of one transaction, from the request to
/// the answer. A node works for several clients at once, so some may belong to others.
pub(super) fn transaction(trace: &Trace, request: &Request) -> Picture {
    let Request { process, node, .. } = request;
    let millis = request.until.since(request.since).as_secs_f64() * 1e3;
    let svg = diagram(&chosen(trace, &[request]));
    let title =
        format!("Messages of a transaction: c{process} at n{node}, {millis:.1} ms (median)");
    Picture { file: "transaction.svg", title, svg }
}

/// Draws the messages of the transactions of an anomaly.
pub(super) fn anomaly(trace: &Trace, history: &History, anomaly: &Anomaly) -> Option<Picture> {
    let mut requests = Vec::new();
    for number in anomaly.transactions.iter().take(TRANSACTIONS_MAX) {
        let transaction = history.transactions().get(*number)?;
        let is_its = |request: &&Request| {
            let nanos = i64::try_from(request.since.0.as_nanos()).unwrap_or(i64::MAX);
            request.process == transaction.process && nanos == transaction.invoked.nanos
        };
        requests.extend(trace.requests.iter().find(is_its));
    }
    let svg = diagram(&chosen(trace, &requests));
    let title = format!("Messages of the transactions of {}", anomaly.kind);
    Some(Picture { file: "anomaly-messages.svg", title, svg })
}

/// Returns the messages of requests, in the order of sending.
fn chosen<'t>(trace: &'t Trace, requests: &[&Request]) -> Vec<&'t Sent> {
    let is_of = |message: &Sent, request: &Request| {
        let is_party = |name: &str| message.src == name || message.dest == name;
        let (node, client) = (format!("n{}", request.node), format!("c{}", request.process));
        let is_of_client = [&message.src, &message.dest]
            .into_iter()
            .any(|name| Party::from_name(name) == Party::Client);
        let is_within = message.at >= request.since && message.at <= request.until;
        is_within && is_party(&node) && (!is_of_client || is_party(&client))
    };
    let is_chosen = |message: &&Sent| requests.iter().any(|request| is_of(message, request));
    trace.messages.iter().filter(is_chosen).collect()
}

/// Moment at which a message is sent or arrives. Events at one moment keep the order of messages.
struct Event {
    at: Moment,
    message: usize,
    arrives: bool,
}

fn events(messages: &[&Sent]) -> Vec<Event> {
    let mut events = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        events.push(Event { at: message.at, message: number, arrives: false });
        let arrival = message.arrives.map(|at| Event { at, message: number, arrives: true });
        events.extend(arrival);
    }
    events.sort_by_key(|event| (event.at, event.message, event.arrives));
    events
}

fn columns<'m>(messages: &[&'m Sent]) -> Vec<&'m str> {
    let names = messages.iter().flat_map(|message| [&message.src[..], &message.dest[..]]);
    let order = |name: &str| match Party::from_name(name) {
        Party::Client => 0,
        Party::Node => 1,
        Party::Service => 2,
    };
    let names: BTreeSet<(i32, usize, &str)> =
        names.map(|name| (order(name), name.len(), name)).collect();
    names.into_iter().map(|(_, _, name)| name).collect()
}

fn diagram(all: &[&Sent]) -> String {
    let messages = &all[..all.len().min(MESSAGES_MAX)];
    let (events, columns) = (events(messages), columns(messages));
    let row = |number: usize| TOP + ROW * float(number + 1);
    let height = row(events.len()) + 30.0;
    let width = LEFT + COLUMN * float(columns.len().max(1)) + 40.0;
    let mut svg = Svg::new(width, height);
    let x = |name: &str| {
        let place = columns.iter().position(|column| *column == name).unwrap_or_default();
        LEFT + COLUMN * float(place)
    };
    for column in &columns {
        svg.text((x(column), TOP - 20.0), Anchor::Middle, column);
        svg.line((x(column), TOP - 12.0), (x(column), height - 20.0), "stroke=\"#bbb\"");
    }
    let first = events.first().map_or_else(Moment::default, |event| event.at);
    let mut shown_at = None;
    for (number, event) in events.iter().enumerate() {
        if shown_at != Some(event.at) {
            let millis = event.at.since(first).as_secs_f64() * 1e3;
            svg.text((10.0, row(number) + 4.0), Anchor::Start, &format!("{millis:.3} ms"));
            shown_at = Some(event.at);
        }
        if event.arrives {
            continue;
        }
        let message = messages[event.message];
        let is_its_end = |other: &Event| other.arrives && other.message == event.message;
        let end = events.iter().position(is_its_end);
        arrow(&mut svg, message, (x(&message.src), row(number)), x(&message.dest), end.map(row));
    }
    if all.len() > messages.len() {
        let left_out = all.len() - messages.len();
        let note = format!("{left_out} more messages are not drawn");
        svg.text((LEFT, height - 6.0), Anchor::Start, &note);
    }
    svg.finish()
}

/// Draws a message; one without an end was lost.
fn arrow(svg: &mut Svg, message: &Sent, from: (f64, f64), x: f64, end: Option<f64>) {
    let label = (from.0.min(x) + 8.0, from.1 - 3.0);
    svg.text(label, Anchor::Start, &message.text);
    match end {
        Some(y) => svg.line(from, (x, y), "stroke=\"#333\" marker-end=\"url(#arrow)\""),
        None => {
            let lost = (f64::midpoint(from.0, x), from.1 + ROW / 2.0);
            svg.line(from, lost, &format!("stroke=\"{INFO}\" stroke-dasharray=\"4 3\""));
            svg.text(lost, Anchor::Middle, "✕ lost");
        }
    }
}

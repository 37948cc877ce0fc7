//! Pictures of a run contain what the run held.

use std::time::Duration;

use carnet_checker::Outcome;
use carnet_maelstrom::Options;
use carnet_maelstrom_test::pictures::{Picture, draw, page};
use carnet_maelstrom_test::{Conditions, Distribution, Kind, Plan, Report, simulated};

fn run(plan: &Plan, options: &Options) -> (Report, Vec<Picture>) {
    let report = simulated::run(plan, options).unwrap();
    let pictures = draw(&report).unwrap();
    (report, pictures)
}

fn plan() -> Plan {
    Plan { traces: true, time_limit: Duration::from_secs(2), ..Plan::default() }
}

fn svg<'p>(pictures: &'p [Picture], file: &str) -> &'p str {
    &pictures.iter().find(|picture| picture.file == file).unwrap().svg
}

/// Checks that tags are closed in order, and returns their number.
fn tags(svg: &str) -> usize {
    let (mut open, mut count) = (Vec::new(), 0);
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap();
        assert!(!text.contains('>'), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        count += 1;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    count
}

#[test]
fn plots_show_every_request() {
    let (report, pictures) = run(&plan(), &Options::default());
    for picture in &pictures {
        assert!(tags(&picture.svg) > 20, "{}", picture.file);
        let is_number = !picture.svg.contains("NaN") && !picture.svg.contains("\"inf");
        assert!(is_number, "{}", picture.svg);
    }
    let latency = svg(&pictures, "latency.svg");
    let requests = usize::try_from(report.ok).unwrap();
    assert!(requests > 100);
    assert_eq!(latency.matches("<circle").count(), requests);
    for file in ["latency.svg", "rate.svg"] {
        assert!(svg(&pictures, file).contains(&format!(">ok: {requests}<")), "{file}");
    }
    let slowest = report.latency(1000).as_secs_f64() * 1e3;
    assert!(latency.contains(&format!("{slowest:.2} ms")), "{slowest}");
    let page = page(&report, &plan(), &pictures);
    assert!(pictures.iter().all(|picture| page.contains(&picture.svg)));
    assert!(page.contains("&quot;servers_per_op&quot;"));
}

#[test]
fn messages_of_a_transaction_are_drawn() {
    let conditions = Conditions {
        latency: Duration::from_millis(3),
        distribution: Distribution::Constant,
        ..plan().conditions
    };
    let (report, pictures) = run(&Plan { conditions, ..plan() }, &Options::default());
    let picture = pictures.iter().find(|picture| picture.file == "transaction.svg").unwrap();
    assert!(!pictures.iter().any(|picture| picture.file.starts_with("anomaly")));
    // Between the request and the answer is a read or a move of the root.
    let svg = &picture.svg;
    assert!(svg.contains(">txn [[") && svg.contains(">txn_ok [["), "{svg}");
    assert!(svg.contains(">lin-kv<"), "{svg}");
    assert!(svg.contains(">cas ") || svg.contains(">read "), "{svg}");
    let trace = report.trace.unwrap();
    let client = picture.title.split_whitespace().nth(4).unwrap();
    let asked: Vec<_> = trace.messages.iter().filter(|message| message.src == client).collect();
    assert!(asked.iter().any(|message| svg.contains(&message.text.replace('"', "&quot;"))));
    // A message takes its latency: its end is lower than its begin, or on its way.
    let arrows = svg.matches("marker-end").count();
    assert!(arrows >= 4, "{arrows} arrows");
}

#[test]
fn lost_messages_are_drawn() {
    // Each move of the root is followed by a hint to the other node, which is lost.
    let conditions = Conditions { loss: 1000, ..plan().conditions };
    let drawn = (0..10).any(|seed| {
        let (report, pictures) = run(&Plan { seed, conditions, ..plan() }, &Options::default());
        let trace = report.trace.unwrap();
        assert!(trace.messages.iter().any(|message| message.arrives.is_none()));
        svg(&pictures, "transaction.svg").contains("✕ lost")
    });
    assert!(drawn);
}

#[test]
fn anomaly_is_drawn_with_its_transactions() {
    let mut options = Options { hint_peers_max: 0, ..Options::default() };
    options.tree.verify_reads = false;
    let (report, pictures) = (0..20)
        .map(|seed| run(&Plan { seed, workload: Kind::TxnListAppend, ..plan() }, &options))
        .find(|(report, _)| !report.verdict.is_valid)
        .unwrap();
    let (anomaly, history) = (report.verdict.anomaly.unwrap(), report.verdict.history.unwrap());
    let svg = svg(&pictures, "anomaly.svg");
    assert!(!anomaly.dependencies.is_empty());
    for dependency in &anomaly.dependencies {
        assert!(svg.contains(&format!(">{}</text>", dependency.kind)), "{svg}");
    }
    for number in &anomaly.transactions {
        let transaction = &history.transactions()[*number];
        assert_eq!(transaction.outcome, Outcome::Committed);
        assert!(svg.contains(&format!(">T{number}: {}", transaction.ops[0])), "{svg}");
    }
    assert_eq!(svg.matches("marker-end").count(), anomaly.dependencies.len());
    assert!(svg.contains("a contradiction"));
    let messages = self::svg(&pictures, "anomaly-messages.svg");
    assert!(messages.contains(">txn [[") && messages.contains(">txn_ok [["), "{messages}");
}

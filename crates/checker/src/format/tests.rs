use super::*;
use crate::history::{Key, Moment, Op, Outcome, Transaction};
use crate::{Model, Options, Workload, check};
use carnet_base::{Rng, SeededRng};

fn read(text: &str) -> Result<History> {
    Format::guess(text).read(text)
}

fn written(history: &History, format: Format) -> String {
    let mut bytes = Vec::new();
    match format {
        Format::Edn => write_edn(history, &mut bytes).unwrap(),
        Format::Json => write_json(history, &mut bytes).unwrap(),
    }
    String::from_utf8(bytes).unwrap()
}

const LISTS: &str = r#"
; as Jepsen writes it, a nemesis between
#jepsen.history.Op{:index 0, :time 5, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:append "y" 1]]}
{:index 1, :time 6, :type :info, :process :nemesis, :f :start, :value {:cut #{"n1" n2}, :at 1.5}}
{:index 2, :time 7, :type :invoke, :process 1, :f :txn, :value [[:r "y" nil], [:append :x 2]]}
{:index 3, :time 8, :type :ok, :process 0, :f :txn, :value [[:r :x []] [:append "y" 1]], :extra #_ignored \] }
{:index 4, :time 9, :type :fail, :process 1, :f :txn, :value [[:r "y" nil] [:append :x 2]], :error [:conflict "a \"quoted\" \u0041"]}
{:index 5, :time 10, :type :invoke, :process 1, :f :txn, :value [[:append :x 3]]}
{:index 6, :time 11, :type :info, :process 1, :f :txn, :value [[:append :x 3]], :error :timeout}
{:index 7, :time 12, :type :invoke, :process 2, :f :txn, :value [[:r 9 nil]]}
"#;

#[test]
fn jepsens_edn_is_read() {
    let history = read(LISTS).unwrap();
    assert_eq!(history.workload(), Workload::ListAppend);
    let transactions = history.transactions();
    let outcomes: Vec<Outcome> = transactions.iter().map(|txn| txn.outcome).collect();
    use Outcome::{Aborted, Committed, Unknown};
    assert_eq!(outcomes, [Committed, Aborted, Unknown, Unknown]);
    assert_eq!(transactions[0].completed, Some(Moment { index: 3, nanos: 8 }));
    assert_eq!(transactions[3].completed, None);
    assert_eq!(
        transactions[0].ops,
        [
            Op::ReadList { key: Key::Keyword("x".into()), list: vec![] },
            Op::Append { key: "y".into(), element: 1 }
        ]
    );
    let in_vector = read(&format!("[{LISTS}]")).unwrap();
    assert_eq!(in_vector, history);
}

#[test]
fn json_is_read_as_lines_or_as_one_array() {
    let lines = r#"
        {"index":0,"type":"invoke","process":0,"f":"txn","time":1,"value":[["w","x",1]]}
        {"index":1,"type":":ok","process":0,"f":":txn","time":2,"value":[[":w","x",1]]}
        {"index":2,"type":"invoke","process":0,"f":"txn","time":3,"value":[["r","x",null]]}
        {"index":3,"type":"ok","process":0,"f":"txn","time":4,"value":[["r","x",null]]}"#;
    let history = read(lines).unwrap();
    assert_eq!(history.workload(), Workload::Register);
    let array = format!("[{}]", lines.trim().replace('\n', ","));
    assert_eq!(read(&array).unwrap(), history);
    let report = check(&history, &Options::default()).unwrap();
    assert!(report.allows(Model::Serializable) && !report.is_strictly_serializable());
}

/// The example from Elle's introduction: only completions.
#[test]
fn completions_alone_have_no_real_time() {
    let text = "{:type :ok, :value [[:append :x 1] [:r :y [1]]]}
                {:type :ok, :value [[:append :x 2] [:append :y 1]]}
                {:type :ok, :value [[:r :x [1 2]]]}";
    let history = read(text).unwrap();
    let report = check(&history, &Options::default()).unwrap();
    // T1 wrote y 1, which T0 read; T0's 1 in x comes before T1's 2.
    let anomaly = report.counterexample(Model::ReadCommitted).unwrap();
    assert_eq!(anomaly.kind.to_string(), "G1c");
    assert_eq!(anomaly.transactions.len(), 2);
}

#[test]
fn invocations_without_process_are_paired() {
    let text = "{:type :invoke, :value [[:append :x 1]]}
                {:type :invoke, :value [[:append :x 2] [:r :y nil]]}
                {:type :ok, :value [[:append :x 1]]}
                {:type :fail, :value nil}
                {:type :invoke, :process 1, :value [[:r :x nil]]}
                {:type :invoke, :value [[:r :x nil]]}
                {:type :ok, :value [[:r :x []]]}
                {:type :ok, :process 1, :value [[:r :x [1]]]}";
    let history = read(text).unwrap();
    let spans: Vec<(u64, Option<u64>)> = history
        .transactions()
        .iter()
        .map(|txn| (txn.invoked.index, txn.completed.map(|at| at.index)))
        .collect();
    assert_eq!(spans, [(0, Some(2)), (1, Some(3)), (4, Some(7)), (5, Some(6))]);
    assert_eq!(history.transactions()[1].outcome, Outcome::Aborted);
    // Real time is known: the second read misses an append that was answered before it.
    let report = check(&history, &Options::default()).unwrap();
    assert!(report.allows(Model::Serializable) && !report.is_strictly_serializable());
    // Each has its own process: no session connects them.
    assert!(report.allows(Model::StrongSessionSerializable));
}

#[test]
fn invalid_histories_are_rejected_with_the_place() {
    let event = |fields: &str| format!("{{:type :invoke, :process 0, :f :txn, {fields}}}");
    let cases = [
        (String::new(), "no transaction"),
        ("{:type :ok".into(), "line 1"),
        ("\n\n]".into(), "line 3"),
        ("{:type :ok :value}".into(), "no value"),
        (event(":value [[:r 1]]"), "[function key value]"),
        (event(":value [[:r [1] nil]]"), "not supported yet"),
        (event(":value [[:append 1 :a]]"), "64-bit"),
        (event(":value [[:cas 1 2]]"), "not supported yet"),
        (event(":value 3"), "line 1"),
        (event(":index -1"), "not an index"),
        (event(":value []") + &event(":value []"), "again before it was answered"),
        (event(":index 4") + &event(":value []"), "some do not"),
        ("{:type :ok, :process 1} {:type :invoke, :process 2}".into(), "was not invoked"),
        (event(":value [[:append 1 2]]") + "{:type :ok, :process 0}", "differ from"),
        (
            "{:type :invoke, :value [[:r 1 nil]]}".repeat(2) + "{:type :ok, :value [[:r 1 [2]]]}",
            "several open invocations",
        ),
        (event(":value [[:append 1 2] [:w 3 4]]"), "not both"),
        ("{\"type\":\"ok\",}".into(), "invalid JSON"),
        ("[".repeat(100_000), "too deeply"),
        ("{:a ".repeat(100_000), "too deeply"),
        ("#a ".repeat(100_000), "too deeply"),
        ("#_ ".repeat(100_000), "too deeply"),
        (format!("{{\"a\":{}", "[".repeat(100_000)), "invalid JSON"),
    ];
    for (text, part) in cases {
        let message = read(&text).unwrap_err().to_string();
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn random_history(rng: &mut SeededRng, has_lists: bool) -> History {
    let names = ["x", "a \"b\"\\\n\té", "", "日本"];
    let mut transactions = Vec::new();
    for number in 0..rng.below(20) {
        let outcome = [Outcome::Committed, Outcome::Aborted, Outcome::Unknown]
            [usize::try_from(rng.below(3)).unwrap()];
        let committed = outcome == Outcome::Committed;
        let ops = (0..rng.below(5)).map(|at| {
            let key = match rng.below(3) {
                0 => Key::Int(i64::try_from(rng.below(9)).unwrap() - 4),
                1 => Key::Keyword("k/w".into()),
                _ => names[usize::try_from(rng.below(4)).unwrap()].into(),
            };
            let value = i64::try_from(number * 10 + at).unwrap() - 50;
            let some = rng.below(3);
            match (rng.below(2), has_lists) {
                (0, true) => Op::Append { key, element: value },
                (0, false) => Op::Write { key, value },
                (_, true) => {
                    let list =
                        if committed { vec![value; some.try_into().unwrap()] } else { vec![] };
                    Op::ReadList { key, list }
                }
                _ => Op::ReadRegister { key, value: (committed && some > 0).then_some(value) },
            }
        });
        let ops = ops.collect();
        let moment = |index| Moment { index, nanos: 7 };
        let invoked = moment(2 * number);
        let answers = outcome != Outcome::Unknown || rng.below(2) == 0;
        let completed = answers.then_some(moment(2 * number + 1));
        let process = i64::try_from(number).unwrap();
        transactions.push(Transaction { process, invoked, completed, outcome, ops });
    }
    // It determines the workload, and ensures that there is a transaction.
    let key = Key::Int(0);
    let value = i64::MIN;
    let op = if has_lists { Op::Append { key, element: value } } else { Op::Write { key, value } };
    let invoked = Moment { index: 1000, nanos: 0 };
    let (completed, outcome) = (None, Outcome::Unknown);
    transactions.push(Transaction { process: 99, invoked, completed, outcome, ops: vec![op] });
    History::new(transactions).unwrap()
}

#[test]
fn written_histories_are_read_back() {
    for seed in 0..2000 {
        let history = random_history(&mut SeededRng::new(seed), seed % 2 == 0);
        let edn = written(&history, Format::Edn);
        assert_eq!(Format::guess(&edn), Format::Edn);
        assert_eq!(read(&edn).unwrap(), history, "seed {seed}\n{edn}");
        let json = written(&history, Format::Json);
        assert_eq!(Format::guess(&json), Format::Json);
        let again = read(&json).unwrap();
        assert_eq!(again.transactions().len(), history.transactions().len(), "seed {seed}");
        // Keywords became strings; nothing else may differ.
        assert_eq!(written(&again, Format::Json), json, "seed {seed}");
    }
}

#[test]
fn mutated_bytes_are_read_or_refused() {
    let mut rng = SeededRng::new(3);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..30_000 {
        let format = if round % 2 == 0 { Format::Edn } else { Format::Json };
        let mut bytes = if round % 3 == 0 {
            LISTS.as_bytes().to_vec()
        } else {
            written(&random_history(&mut rng, round % 4 == 0), format).into_bytes()
        };
        for _ in 0..=rng.below(4) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            match rng.below(3) {
                0 => {
                    let odd = b"{}[]()\"\\#_:;0-9N \n\xc3";
                    bytes[at] = odd[usize::try_from(rng.below(19)).unwrap()];
                }
                1 => bytes[at] ^= 1 << rng.below(8),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match format.read(&text) {
            Ok(history) => {
                accepted += 1;
                // A valid history can be checked, or has a duplicate value.
                let _ = check(&history, &Options::default()).map(|report| report.explain(&history));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

//! The command-line program: its arguments and its exit code.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs the program with a text as its standard input; returns exit code, output and errors.
fn run(arguments: &[&str], text: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carnet-checker"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read its input closes it.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const WRITE_SKEW: &str = "
{:index 0, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:append :y 1]]}
{:index 1, :type :invoke, :process 1, :f :txn, :value [[:r :y nil] [:append :x 2]]}
{:index 2, :type :ok, :process 0, :f :txn, :value [[:r :x []] [:append :y 1]]}
{:index 3, :type :ok, :process 1, :f :txn, :value [[:r :y []] [:append :x 2]]}
{:index 4, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:r :y nil]]}
{:index 5, :type :ok, :process 0, :f :txn, :value [[:r :x [2]] [:r :y [1]]]}
";

#[test]
fn write_skew_is_told_in_words() {
    let (code, verdict, _) = run(&["-"], WRITE_SKEW);
    assert_eq!(code, 1, "{verdict}");
    let expected = "\
3 transactions committed, 0 aborted, 0 unknown
  read-committed                     not violated
  snapshot-isolation                 not violated
  strong-session-snapshot-isolation  not violated
  strong-snapshot-isolation          not violated
  serializable                       VIOLATED: G2-item
  strong-session-serializable        VIOLATED: G2-item
  strict-serializable                VIOLATED: G2-item
found 1 × G2-item

G2-item
  T0 (process 0, invoked at 0, committed at 2): r(:x) = [] append(:y, 1)
  T1 (process 1, invoked at 1, committed at 3): r(:y) = [] append(:x, 2)
  - T0 comes before T1, because T0 read :x as [], which lacks 2, appended by T1
  - T1 comes before T0, because T1 read :y as [], which lacks 1, appended by T0
  - so T0 would come before itself: a contradiction
";
    assert_eq!(verdict, expected);
    assert_eq!(run(&["--model", "snapshot-isolation", "-"], WRITE_SKEW).0, 0);
    assert_eq!(run(&["--model", "serializable", "--format", "edn", "-"], WRITE_SKEW).0, 1);
}

#[test]
fn unusable_input_exits_with_two() {
    for arguments in [&["-"][..], &["/no/such/file"], &["--model", "best", "-"], &["-", "-"], &[]] {
        let (code, verdict, errors) = run(arguments, "{:type :ok");
        assert_eq!((code, verdict.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.starts_with("carnet-checker: "), "{errors}");
    }
    let (code, usage, _) = run(&["--help"], "");
    assert!(code == 0 && usage.contains("exit code"));
}

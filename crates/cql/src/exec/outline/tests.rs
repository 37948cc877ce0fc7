use super::*;
use crate::parser::{Limits, parse};

/// Returns the outline of a text, which must equal that of its syntax tree.
fn outline(text: &str) -> Outline<'_> {
    let outline = Outline::of_text(text);
    let parsed = parse(text, &Limits::default()).unwrap();
    let of_statement = Outline::of_statement(&parsed.statement, None, |_| None);
    assert_eq!(of_statement.why_large.is_some(), of_statement.is_large, "{text}");
    let expected = Outline { is_cut: outline.is_cut, why_large: None, ..of_statement };
    assert_eq!(outline, expected, "{text}");
    outline
}

#[test]
fn first_words_determine_the_class() {
    for (text, class) in [
        ("SELECT * FROM ks.t WHERE k = 1", Class::Read),
        ("  /* x */ select count(*) from t", Class::Read),
        ("SELECT peer FROM system.peers_v2", Class::System),
        ("select * from SYSTEM_schema.tables", Class::System),
        ("SELECT \"from\" FROM ks.system", Class::Read),
        ("INSERT INTO t (k) VALUES (1)", Class::Write),
        ("BEGIN TRANSACTION COMMIT TRANSACTION", Class::Write),
        ("update t set v = 1 where k = 1", Class::Write),
        ("DELETE FROM system.t WHERE k = 1", Class::Write),
        ("CREATE TABLE t (k int PRIMARY KEY)", Class::System),
        ("CREATE SERVICE LEVEL gold", Class::System),
        ("SHOW BOTTLENECK", Class::System),
        ("USE ks", Class::System),
        ("", Class::System),
        ("SELECT 'x", Class::Read),
        ("\u{1f600}", Class::System),
    ] {
        assert_eq!(Outline::of_text(text).class, class, "{text}");
    }
}

#[test]
fn ends_of_transactions_are_admitted_as_system_statements() {
    for (text, class) in [
        ("START TRANSACTION READ ONLY", Class::Write),
        ("start detached transaction", Class::Write),
        ("COMMIT TRANSACTION ?", Class::System),
        ("ROLLBACK", Class::System),
        ("KILL TRANSACTION ?", Class::System),
        ("SELECT outcome(?)", Class::Read),
    ] {
        assert_eq!(outline(text).class, class, "{text}");
    }
    assert!(outline("COMMIT").is_scan, "it has the timeout of scans");
    let update = "UPDATE t USING TRANSACTION ? AND TIMEOUT 5s SET v = 1 WHERE k IN (1, 2)";
    assert_eq!(outline(update).timeout, Some(Duration::from_secs(5)));
    let select = "SELECT v FROM t WHERE k = 1 USING TRANSACTION :id AND SERVICE LEVEL gold";
    assert_eq!(outline(select).level, Some("gold"));
}

#[test]
fn scans_aggregates_filters_and_long_lists_are_large() {
    let twelve = "SELECT * FROM t WHERE k IN (1,2,3,4,5,6,7,8,9,10,11,12)";
    for (text, is_large) in [
        ("SELECT * FROM t", true),
        ("SELECT * FROM t LIMIT 10", false),
        ("SELECT * FROM t PER PARTITION LIMIT 1", true),
        ("SELECT * FROM t WHERE token(k) > 5", true),
        ("SELECT * FROM t WHERE token(k) > 5 AND token(k) < 9 LIMIT 3", false),
        ("SELECT * FROM t WHERE k = 1", false),
        ("SELECT * FROM t WHERE k = 1 AND c > 5", false),
        ("SELECT * FROM t WHERE v = 1 ALLOW FILTERING", true),
        ("SELECT count(*) FROM t WHERE k = 1", true),
        ("SELECT a, max(b) FROM t WHERE k = 1", true),
        ("SELECT a AS count FROM t WHERE k = 1", false),
        (twelve, false),
        ("SELECT * FROM t WHERE k IN (1,2,3,4) AND c IN (1,2,3)", false),
        ("SELECT * FROM t WHERE k IN (1,2,3,4) AND c IN (1,2,3,4)", true),
        ("SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4), (5, 6), (7, 8))", false),
        ("SELECT * FROM t WHERE k IN ?", false),
        ("DELETE FROM t WHERE k IN (1,2,3,4,5,6,7,8,9,10,11,12,13)", true),
        ("UPDATE t SET v = [1,2,3,4,5,6,7,8,9,10,11,12,13,14] WHERE k = 1", false),
        ("INSERT INTO t (a, b) VALUES (1, 2)", false),
    ] {
        assert_eq!(outline(text).is_large, is_large, "{text}");
    }
    assert!(outline(&twelve.replace("12)", "12,13)")).is_large);
}

#[test]
fn timeout_and_level_of_the_text_are_found() {
    let found = |text| {
        let outline = outline(text);
        (outline.timeout.map(|timeout| timeout.as_millis()), outline.level.map(str::to_owned))
    };
    let both = (Some(50), Some("gold".to_owned()));
    for text in [
        "SELECT * FROM t WHERE k = 1 USING TIMEOUT 50ms AND SERVICE LEVEL gold",
        "SELECT * FROM t USING SERVICE_LEVEL 'gold' AND TIMEOUT 50ms",
        "INSERT INTO t (k) VALUES (1) USING TIMESTAMP 5 AND TIMEOUT 50ms AND SERVICE LEVEL gold",
        "UPDATE t USING TIMEOUT 50ms AND TTL :ttl AND SERVICE LEVEL \"gold\" SET v = 1 WHERE k = 1",
        "DELETE FROM t USING SERVICE LEVEL gold AND TIMEOUT 50ms WHERE k IN (1, 2)",
        "BEGIN UNLOGGED BATCH USING TIMEOUT 50ms AND SERVICE LEVEL gold \
         INSERT INTO t (k) VALUES (1); APPLY BATCH",
    ] {
        assert_eq!(found(text), both, "{text}");
    }
    assert_eq!(found("SELECT * FROM t WHERE v = 'USING TIMEOUT 1ms'"), (None, None));
    assert_eq!(found("SELECT * FROM t USING TIMEOUT ?"), (None, None));
    assert_eq!(found("SELECT * FROM t USING TIMEOUT :t AND SERVICE LEVEL gold"), (None, both.1));
    assert_eq!(found("INSERT INTO t (timeout) VALUES (1)"), (None, None));
}

#[test]
fn only_the_first_tokens_are_scanned() {
    let keys = vec!["1"; 10_000].join(",");
    let text = format!("SELECT * FROM t WHERE k IN ({keys}) USING TIMEOUT 50ms");
    let outline = Outline::of_text(&text);
    assert!(outline.is_cut && outline.is_large);
    assert_eq!(outline.timeout, None);
    let values = vec!["1"; TOKENS_MAX].join(",");
    let text = format!("INSERT INTO t (k) VALUES ([{values}])");
    assert!(!Outline::of_text(&text).is_large);
}

#[test]
fn only_the_first_bytes_are_scanned() {
    let text =
        format!("INSERT INTO t (k) VALUES ('{}é') USING TIMEOUT 50ms", "x".repeat(BYTES_MAX));
    let outline = Outline::of_text(&text);
    assert!(outline.is_cut && !outline.is_large);
    assert_eq!(outline.timeout, None);
    let short = text.replace(&"x".repeat(BYTES_MAX), "");
    assert_eq!(Outline::of_text(&short).timeout, Some(Duration::from_millis(50)));
}

#[test]
fn outline_of_a_prepared_statement_is_kept_unless_it_depends_on_values() {
    for (text, is_kept) in [
        ("SELECT * FROM t WHERE k = ?", true),
        ("SELECT count(*) FROM t USING TIMEOUT 5s AND SERVICE LEVEL gold", true),
        ("UPDATE t USING SERVICE LEVEL gold SET v = ? WHERE k IN (1, 2)", true),
        ("SELECT * FROM t WHERE k IN ?", false),
        ("DELETE FROM t WHERE k IN ?", false),
    ] {
        let parsed = parse(text, &Limits::default()).unwrap();
        let kept = KeptOutline::new(&parsed.statement, Some("ks"));
        assert_eq!(kept.0.is_some(), is_kept, "{text}");
        for len in [1, 100] {
            let list_len = |_| Some(len);
            let expected = Outline::of_statement(&parsed.statement, Some("ks"), list_len);
            assert_eq!(kept.of(&parsed.statement, Some("ks"), list_len), expected, "{text}");
        }
    }
}

#[test]
fn bound_lists_count_by_their_length() {
    let text = "SELECT * FROM t WHERE k IN ? AND c IN ? AND d = ? AND e IN (1, 2)";
    let parsed = parse(text, &Limits::default()).unwrap();
    let is_large = |lens: [Option<usize>; 3]| {
        Outline::of_statement(&parsed.statement, None, |marker| lens[marker]).is_large
    };
    assert!(!is_large([None, None, Some(1_000)]));
    assert!(!is_large([Some(3), Some(2), None]) && is_large([Some(3), Some(3), None]));
    assert!(!is_large([Some(0), Some(6), None]) && is_large([None, Some(7), None]));
    assert!(is_large([Some(usize::MAX), Some(usize::MAX), None]));
}

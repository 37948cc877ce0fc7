//! Statements that once took seconds, or hundreds of megabytes.

/// Number of repetitions of a term: enough for more memory than one answer may have.
const REPEATED: usize = 40;

/// Returns a `SELECT` of one term many times.
fn repeated(term: &str, count: usize, rest: &str) -> String {
    format!("SELECT {} FROM t {rest}", vec![term; count].join(", "))
}

/// Returns a `SELECT` of a sum or difference of many terms.
fn chain(first: &str, next: &str, count: usize, rest: &str) -> String {
    format!("SELECT {first}{} FROM t {rest}", next.repeat(count))
}

fn transaction(lets: usize, body: &str) -> String {
    let lets: String = (0..lets)
        .map(|at| format!("LET r{at} = (SELECT tx FROM t WHERE k = 3 AND c = {});", at % 24))
        .collect();
    format!("BEGIN TRANSACTION {lets} {body} COMMIT TRANSACTION")
}

pub(crate) fn all() -> Vec<String> {
    let lists = "WHERE k = 2 AND c = 0";
    let sets = "WHERE k = 2 AND c = 1";
    let texts = "WHERE k = 3 AND c = 0";
    let mut all = vec![
        "SELECT n + 0.5 FROM t WHERE k = 1".to_owned(),
        chain("d", " - 1", 2_400, "WHERE k = 1 AND c = 1"),
        chain("tx", " + tx", 1_000, texts),
        "SELECT k FROM t WHERE k = 6 ORDER BY v ANN OF [1, 1, 1, 1] LIMIT 100 ALLOW FILTERING"
            .to_owned(),
        "SELECT * FROM t ORDER BY v ANN OF [1, 1, 1, 1] LIMIT 1000 ALLOW FILTERING".to_owned(),
        transaction(50, "UPDATE t SET tx = r1.tx WHERE k = 9 AND c = 1;"),
        transaction(50, "SELECT r1.tx, r2.tx;"),
        transaction(1, &format!("SELECT {};", vec!["r0.tx"; 500].join(", "))),
        transaction(1, &format!("SELECT {};", vec!["r0.tx + r0.tx"; 300].join(", "))),
        "SELECT max(d), min(d) FROM t WHERE k IN (1, 4)".to_owned(),
        "SELECT avg(n), sum(n) FROM t WHERE k IN (1, 4)".to_owned(),
        // The values of one row are made together.
        transaction(
            1,
            &format!("UPDATE t SET tx = r0.tx{} WHERE k = 9 AND c = 1;", " + r0.tx".repeat(20))
                .repeat(30),
        ),
    ];
    for (term, rest) in [
        ("writetime(l)", lists),
        ("ttl(l)", lists),
        ("to_json(l)", lists),
        ("to_json(fl)", lists),
        ("m['e'..'f']", sets),
        ("writetime(m['e'..'f'])", sets),
        ("CAST(fl AS text)", lists),
        ("collection_max(l)", lists),
        ("map_keys(m)", sets),
        ("to_json(m)", sets),
        ("tx + tx", texts),
        ("text_as_blob(tx)", texts),
        ("mask_inner(tx, 1, 1)", texts),
        ("to_json(tx)", texts),
    ] {
        all.push(repeated(term, REPEATED, rest));
    }
    for (term, rest) in [
        ("max(tx)", "WHERE k = 3"),
        ("min(l)", lists),
        ("max(fl)", lists),
        ("max(m)", sets),
        ("count(l)", "WHERE k = 2"),
        ("max(n)", "WHERE k = 1"),
        ("sum(d)", "WHERE k = 1"),
    ] {
        all.push(repeated(term, REPEATED, rest));
        all.push(repeated(term, REPEATED, &format!("{rest} GROUP BY k")));
    }
    for (term, rest) in
        [("tx", texts), ("l", lists), ("m", sets), ("fl", lists), ("b", "WHERE k = 6")]
    {
        all.push(repeated(term, REPEATED, rest));
        all.push(repeated(term, REPEATED, rest).replacen("SELECT", "SELECT JSON", 1));
    }
    all.push("SELECT JSON * FROM t".to_owned());
    all.push("SELECT JSON * FROM t WHERE k = 3".to_owned());
    all.extend((0..17).map(|at| match at {
        0 => "CREATE TYPE double0 (a text, b text)".to_owned(),
        at => format!("CREATE TYPE double{at} (a frozen<double{0}>, b frozen<double{0}>)", at - 1),
    }));
    all
}

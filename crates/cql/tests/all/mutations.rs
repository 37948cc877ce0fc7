//! No text makes the parser or the splitter panic, and errors have positions within the text.

use carnet_base::{Rng, SeededRng};
use carnet_cql::ast::Statement;
use carnet_cql::{Limits, NESTING_MAX, ParseErrorKind, TERMS_MAX, parse, split};

use crate::support::{generate, with_seeds};

/// Parses a text, and checks the invariants of every text.
fn check(text: &str) {
    match parse(text, &Limits::default()) {
        Ok(parsed) => {
            let canonical = parsed.statement.to_string();
            let again = parse(&canonical, &Limits::default())
                .unwrap_or_else(|error| panic!("{text:?} became {canonical:?}: {error}"));
            if matches!(parsed.statement, Statement::Role(_)) {
                // A damaged password is shown as the mask.
                assert_eq!(again.statement.to_string(), canonical, "{text:?}");
            } else {
                assert_eq!(again.statement, parsed.statement, "{text:?} became {canonical:?}");
            }
            assert_eq!(parsed.statement.bind_sites().len(), parsed.markers.len(), "{text:?}");
        }
        Err(error) => {
            let location = error.location();
            assert!(text.is_char_boundary(location.offset), "{text:?}");
            assert!(location.line <= text.split('\n').count(), "{text:?}");
            assert!(!error.message().is_empty());
            assert!(error.message().chars().count() < 300, "{error}");
            assert!(error.snippet().chars().count() < 300, "{error}");
        }
    }
    let mut end = 0;
    for piece in split(text) {
        assert!(piece.start.offset >= end && text[piece.start.offset..].starts_with(piece.text));
        end = piece.start.offset + piece.text.len();
    }
}

fn at(rng: &mut SeededRng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).expect("it is below a usize")
}

/// Cuts, duplicates, swaps or overwrites a part of the text.
fn mutate(rng: &mut SeededRng, text: &str, other: &str) -> String {
    let cut = |rng: &mut SeededRng, text: &str| text.floor_char_boundary(at(rng, text.len() + 1));
    let (mut from, mut to) = (cut(rng, text), cut(rng, text));
    if rng.chance(700) {
        to = text.floor_char_boundary((from + at(rng, 4)).min(text.len()));
    }
    if from > to {
        (from, to) = (to, from);
    }
    let pieces =
        ["'", "\"", "(", ")", "$$", "--", "/*", ";", "?", ":", "-", "é", "\u{0}", "<", " IF ", "1"];
    let inserted = match rng.below(4) {
        0 => "",
        1 => pieces[at(rng, pieces.len())],
        2 => &text[from..to],
        _ => {
            let (a, b) = (cut(rng, other), cut(rng, other));
            &other[a.min(b)..a.max(b)]
        }
    };
    let kept = if rng.chance(500) { from } else { to };
    [&text[..kept], inserted, &text[to..]].concat()
}

#[test]
fn damaged_statements() {
    with_seeds(100_000, |rng| {
        let mut text = generate::statement(rng).to_string();
        let other = generate::statement(rng).to_string();
        for _ in 0..=at(rng, 3) {
            text = mutate(rng, &text, &other);
        }
        check(&text);
    });
}

#[test]
fn token_soup() {
    const WORDS: &str = "select insert update delete from into set where and or if not exists is \
        null in begin batch transaction apply commit let then else end create alter drop table \
        keyspace use truncate describe with using ttl timestamp timeout limit per partition order \
        group by asc desc primary key values token cast as count distinct json frozen list map \
        tuple vector static clustering compact storage contains like allow filtering add rename \
        type to a b t ks x.y ? :n 1 -1 1.5 'a' \"B\" $$c$$ 0xff 1h true nan infinity \
        00000000-0000-0000-0000-000000000000 ( ) ( ) ( ) [ ] { } , , , ; : . = = < > <= >= != += \
        -= + - * / % -- // /* */ ' \" $$";
    let words: Vec<&str> = WORDS.split_ascii_whitespace().collect();
    with_seeds(60_000, |rng| {
        let first = words[at(rng, 20)];
        let rest = (0..at(rng, 24)).map(|_| words[at(rng, words.len())]);
        let text: Vec<&str> = std::iter::once(first).chain(rest).collect();
        check(&text.join(if rng.chance(800) { " " } else { "" }));
    });
}

#[test]
fn random_characters() {
    with_seeds(20_000, |rng| {
        let text: String = (0..at(rng, 40))
            .map(|_| {
                let code = if rng.chance(800) { rng.below(128) } else { rng.below(0x11_0000) };
                u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
            })
            .collect();
        check(&text);
    });
}

/// Runs a test on half of a thread's usual stack.
fn on_a_small_stack(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let running = thread.spawn(test).expect("a thread starts");
    running.join().expect("the test holds");
}

#[test]
fn deep_nesting_is_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        let openers = [
            "(", "[", "{", "{1:", "f(", "-", "- ", "(int) ", "CAST(", "{a: ", "(1, ", "(a)", "((a)",
        ];
        for opener in openers {
            for (before, after) in [
                ("SELECT ", " FROM t"),
                ("INSERT INTO t (a) VALUES (", ")"),
                ("SELECT a FROM t WHERE ", ""),
                ("SELECT a FROM t WHERE a IN (", ""),
                ("BEGIN TRANSACTION LET a = (SELECT a FROM t); IF ", ""),
            ] {
                let deep = opener.repeat(5_000);
                check(&format!("{before}{deep}1{after}"));
            }
        }
        for opener in ["frozen<", "map<int, ", "tuple<int, ", "(list<"] {
            check(&format!("CREATE TABLE t (a {}", opener.repeat(5_000)));
            check(&format!("SELECT ({} FROM t", opener.repeat(5_000)));
        }
    });
}

#[test]
fn maximum_nesting_works_on_a_small_stack() {
    on_a_small_stack(|| {
        let levels = NESTING_MAX - 1;
        let text =
            format!("INSERT INTO t (a) VALUES ({}1{})", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&text, &Limits::default()).is_ok());
        check(&text);
        let too_deep = text.replace('1', "[1]");
        let error = parse(&too_deep, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ParseErrorKind::Invalid);
        assert!(error.message().starts_with("nested more than"), "{error}");
    });
}

#[test]
fn long_chains_are_not_deep() {
    on_a_small_stack(|| {
        let sum = "1 + ".repeat(TERMS_MAX - 1);
        assert!(parse(&format!("SELECT {sum}1 FROM t"), &Limits::default()).is_ok());
        let all = "a.v = 1 AND ".repeat(20_000);
        check(&format!(
            "BEGIN TRANSACTION LET a = (SELECT v FROM t); IF {all}a IS NULL THEN END IF \
             COMMIT TRANSACTION"
        ));
    });
}

#[test]
fn too_many_markers_are_refused() {
    let with_markers = |count: usize| {
        let list = vec!["?"; count].join(",");
        parse(&format!("SELECT f({list}) FROM t"), &Limits::default())
    };
    assert_eq!(with_markers(65_535).unwrap().markers.len(), 65_535);
    let error = with_markers(65_536).unwrap_err();
    assert_eq!(error.message(), "more than 65535 bind markers");
}

#[test]
fn statement_over_the_limit_is_not_parsed() {
    let limits = Limits { statement_bytes_max: 20 };
    assert!(parse("SELECT a FROM tables", &limits).is_ok());
    let error = parse("SELECT a FROM tables;", &limits).unwrap_err();
    assert_eq!(error.kind(), ParseErrorKind::Invalid);
    assert!(error.message().contains("21 bytes, more than the 20"), "{error}");
}

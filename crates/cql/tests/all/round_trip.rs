//! A syntax tree's text parses to the same tree, with its bind markers in order.

use carnet_cql::{Limits, PieceEnd, parse, split};

use crate::support::{generate, with_seeds};

#[test]
fn text_of_a_tree_parses_to_the_tree() {
    with_seeds(30_000, |rng| {
        let statement = generate::statement(rng);
        let text = statement.to_string();
        let parsed = parse(&text, &Limits::default()).unwrap_or_else(|error| {
            panic!("{error}\nin {text}\nof {statement:#?}");
        });
        assert_eq!(parsed.statement, statement, "{text}\nbecame {}", parsed.statement);
    });
}

#[test]
fn every_marker_has_one_role_in_order() {
    with_seeds(10_000, |rng| {
        let statement = generate::statement(rng);
        let parsed = parse(&statement.to_string(), &Limits::default()).unwrap();
        let sites = parsed.statement.bind_sites();
        assert_eq!(sites.len(), parsed.markers.len(), "{statement}");
        for (place, (site, marker)) in sites.iter().zip(&parsed.markers).enumerate() {
            assert_eq!(usize::from(site.marker.index), place, "{statement}");
            assert_eq!(site.marker.name, marker.name, "{statement}");
            assert_eq!(site.marker.at.0, marker.at.0, "{statement}");
        }
    });
}

#[test]
fn script_is_split_into_its_statements() {
    with_seeds(5_000, |rng| {
        let texts: Vec<String> = (0..3).map(|_| generate::statement(rng).to_string()).collect();
        let script = texts.join("; -- a comment;\n/* ; */ ");
        let pieces = split(&script);
        let found: Vec<&str> = pieces.iter().map(|piece| piece.text).collect();
        assert_eq!(found, texts, "{script}");
        assert!(pieces[..2].iter().all(|piece| piece.end == PieceEnd::Semicolon));
        assert_eq!(pieces[2].end, PieceEnd::Script);
        for piece in pieces {
            assert!(script[piece.start.offset..].starts_with(piece.text));
        }
    });
}

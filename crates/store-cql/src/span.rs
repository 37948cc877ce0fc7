//! Translates a range of cells into requests that a cluster supports: whole tokens, and slices of
//! partitions. Pure.

use carnet_base::{Bytes, CellKey, KeyRange, PartitionKey, Token};

/// A position in front of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    partition: PartitionKey,
    clustering: Bytes,
}

/// A range of cells of one table, half open and never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    lower: Edge,
    /// `None` is the position behind the last cell.
    upper: Option<Edge>,
}

impl Edge {
    fn before(bytes: Bytes) -> Option<Self> {
        let key = CellKey::from_bytes(bytes).ok()?;
        Some(Self { partition: key.partition(), clustering: key.clustering_bytes() })
    }

    /// Returns `true` if it lies in front of all partitions of its token.
    fn is_whole(&self) -> bool {
        self.partition.bytes().is_empty() && self.clustering.is_empty()
    }
}

impl Span {
    /// Returns the span of a range; `None` if the range is empty.
    pub(crate) fn from_range(range: &KeyRange) -> Option<Self> {
        let (lower, upper) = range.byte_bounds()?;
        // The bounds of a whole table are shorter than any key.
        let first =
            Edge { partition: PartitionKey::first_at(Token::MIN), clustering: Bytes::new() };
        let lower = Edge::before(lower).unwrap_or(first);
        let upper = match range.upper {
            std::ops::Bound::Unbounded => None,
            _ => Edge::before(upper),
        };
        Some(Self { lower, upper })
    }

    /// Returns the first and the last token that the span touches.
    pub(crate) fn tokens(&self) -> (Token, Token) {
        let last = match &self.upper {
            None => Token::MAX,
            Some(edge) if edge.is_whole() => Token(edge.partition.token().0.saturating_sub(1)),
            Some(edge) => edge.partition.token(),
        };
        (self.lower.partition.token(), last)
    }

    /// Returns `true` if the span contains every cell of a token.
    pub(crate) fn covers(&self, token: Token) -> bool {
        let lower = self.lower.partition.token();
        let is_after = lower < token || (lower == token && self.lower.is_whole());
        is_after && self.upper.as_ref().is_none_or(|upper| token < upper.partition.token())
    }

    /// Returns the bounds of a partition's clustering keys that lie in the span: from the first on,
    /// below the second if there is one.
    pub(crate) fn slice(&self, partition: &PartitionKey) -> Option<(Bytes, Option<Bytes>)> {
        let lower = match partition.cmp(&self.lower.partition) {
            std::cmp::Ordering::Less => return None,
            std::cmp::Ordering::Equal => self.lower.clustering.clone(),
            std::cmp::Ordering::Greater => Bytes::new(),
        };
        let Some(edge) = &self.upper else { return Some((lower, None)) };
        match partition.cmp(&edge.partition) {
            std::cmp::Ordering::Less => Some((lower, None)),
            std::cmp::Ordering::Equal if lower < edge.clustering => {
                Some((lower, Some(edge.clustering.clone())))
            }
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => None,
        }
    }
}

/// Returns the next token, if there is one.
pub(crate) fn after(token: Token) -> Option<Token> {
    token.0.checked_add(1).map(Token)
}

/// Returns the smallest bytes greater than these.
pub(crate) fn behind(bytes: &[u8]) -> Bytes {
    [bytes, &[0]].concat().into()
}

/// Returns the token in the middle of two, rounded up.
pub(crate) fn middle(first: Token, last: Token) -> Token {
    let sum = i128::from(first.0) + i128::from(last.0);
    let half = sum.div_euclid(2) + sum.rem_euclid(2);
    Token(i64::try_from(half).unwrap_or(last.0))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use carnet_base::TableId;
    use proptest::prelude::*;

    use super::*;

    const TABLE: TableId = TableId(3);

    fn any_cell() -> impl Strategy<Value = CellKey> {
        let few = || proptest::sample::select(vec![0_u8, 1, 0xfe, 0xff]);
        let tokens = proptest::sample::select(vec![i64::MIN + 1, -1, 0, 1, i64::MAX]);
        let key = proptest::collection::vec(few(), 1..3);
        (tokens, key, proptest::collection::vec(few(), 0..3)).prop_map(
            |(token, key, clustering)| {
                let partition = PartitionKey::with_token(Token(token), key.into());
                CellKey::new(TABLE, &partition, clustering)
            },
        )
    }

    fn any_bound() -> impl Strategy<Value = Bound<CellKey>> {
        let token = any_cell().prop_map(|key| {
            let partition = PartitionKey::first_at(key.token());
            Bound::Excluded(CellKey::new(TABLE, &partition, ""))
        });
        prop_oneof![
            Just(Bound::Unbounded),
            any_cell().prop_map(Bound::Included),
            any_cell().prop_map(Bound::Excluded),
            token
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn slices_hold_the_cells_of_the_range(
            (lower, upper) in (any_bound(), any_bound()),
            keys in proptest::collection::vec(any_cell(), 1..8),
        ) {
            let range = KeyRange { table: TABLE, lower, upper };
            let span = Span::from_range(&range);
            for key in keys {
                let held = span.as_ref().is_some_and(|span| {
                    let (first, last) = span.tokens();
                    let is_touched = first <= key.token() && key.token() <= last;
                    let is_held = span.slice(&key.partition()).is_some_and(|(lower, upper)| {
                        let clustering = key.clustering_bytes();
                        lower <= clustering && upper.is_none_or(|upper| clustering < upper)
                    });
                    assert!(is_touched || !is_held, "{span:?} touches {key:?}");
                    assert!(is_held || !span.covers(key.token()), "{span:?} covers {key:?}");
                    is_held
                });
                prop_assert_eq!(held, range.contains(&key), "{:?} {:?}", range, key);
            }
        }

        #[test]
        fn the_middle_lies_between_and_above_the_first(first in any::<i64>(), last in any::<i64>()) {
            let (first, last) = (Token(first.min(last)), Token(first.max(last)));
            let middle = middle(first, last);
            prop_assert!(first <= middle && middle <= last);
            prop_assert!(first == last || first < middle);
        }
    }

    #[test]
    fn a_whole_table_covers_every_token() {
        let span = Span::from_range(&KeyRange::table(TABLE)).unwrap();
        assert_eq!(span.tokens(), (Token::MIN, Token::MAX));
        assert!([Token::MIN, Token(0), Token::MAX].into_iter().all(|token| span.covers(token)));
        let tokens = KeyRange::tokens(TABLE, Bound::Included(Token(2)), Bound::Included(Token(4)));
        let span = Span::from_range(&tokens).unwrap();
        assert_eq!(span.tokens(), (Token(2), Token(4)));
        assert!(span.covers(Token(2)) && span.covers(Token(4)) && !span.covers(Token(5)));
    }
}

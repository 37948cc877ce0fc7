//! Token ranges of a plan and their progress. Pure.

use carnet_base::Token;

/// Number of ranges of a table: enough for several concurrent readers until the end.
pub(super) const RANGES: u16 = 256;

/// Amount of copied data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of rows, without static rows.
    pub(super) rows: u64,
    pub(super) partitions: u64,
    /// Bytes of values as read.
    pub(super) bytes: u64,
}

impl Tally {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            partitions: self.partitions.saturating_add(other.partitions),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(other.rows),
            partitions: self.partitions.saturating_sub(other.partitions),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Tokens greater than `after` and at most `through`, of which those up to `copied` are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) after: Token,
    pub(super) through: Token,
    pub(super) copied: Token,
    /// Amount of copied data.
    pub(super) tally: Tally,
}

impl Range {
    pub(super) fn is_done(&self) -> bool {
        self.copied >= self.through
    }

    /// Returns the remaining tokens, as an exclusive start and an inclusive end.
    pub(super) const fn rest(&self) -> (Token, Token) {
        (self.copied, self.through)
    }
}

/// Divides all tokens into ranges of equal width. No row has the smallest token.
pub(super) fn plan() -> Vec<Range> {
    let count = i128::from(RANGES);
    let end = |n: i128| {
        let width = i128::from(i64::MAX) - i128::from(i64::MIN);
        let token = i128::from(i64::MIN) + width * n / count;
        Token(i64::try_from(token).expect("it lies between two tokens"))
    };
    let ranges = (0..count).map(|n| (end(n), end(n + 1)));
    let tally = Tally::default();
    ranges.map(|(after, through)| Range { after, through, copied: after, tally }).collect()
}

/// Returns `true` if ranges, in token order, cover all tokens.
pub(super) fn is_whole(ranges: &[Range]) -> bool {
    let mut end = Token(i64::MIN);
    for range in ranges {
        let is_next = range.after == end && range.after <= range.copied;
        if !is_next || range.copied > range.through {
            return false;
        }
        end = range.through;
    }
    end == Token(i64::MAX)
}

/// Position within a range, and the progress that may be stored.
///
/// The last partition may have more rows than were taken, and another partition may share its
/// token: the storable progress ends before that token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    range: Range,
    /// The token of the last row, and the amount taken of it.
    open: Option<(Token, Tally)>,
}

impl Cursor {
    pub(super) const fn new(range: Range) -> Self {
        Self { range, open: None }
    }

    /// Records a row.
    pub(super) fn take(&mut self, token: Token, row: Tally) {
        match &mut self.open {
            Some((open, tally)) if *open == token => *tally = tally.plus(row),
            _ => {
                self.settle();
                self.range.copied = Token(token.0.saturating_sub(1)).max(self.range.copied);
                self.open = Some((token, row));
            }
        }
    }

    /// Records that the range has no more rows.
    pub(super) fn finish(&mut self) {
        self.settle();
        self.range.copied = self.range.through;
    }

    fn settle(&mut self) {
        if let Some((_, tally)) = self.open.take() {
            self.range.tally = self.range.tally.plus(tally);
        }
    }

    /// Returns the progress that may be stored together with the taken rows.
    pub(super) const fn range(&self) -> Range {
        self.range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(partitions: u64) -> Tally {
        Tally { rows: 1, partitions, bytes: 10 }
    }

    #[test]
    fn ranges_cover_all_tokens_once() {
        let ranges = plan();
        assert_eq!(ranges.len(), usize::from(RANGES));
        assert_eq!(ranges.first().unwrap().after, Token(i64::MIN));
        assert_eq!(ranges.last().unwrap().through, Token(i64::MAX));
        assert!(ranges.windows(2).all(|pair| pair[0].through == pair[1].after));
        assert!(ranges.iter().all(|range| range.after < range.through && !range.is_done()));
        let width = |range: &Range| range.through.0.abs_diff(range.after.0);
        let widths: Vec<u64> = ranges.iter().map(width).collect();
        assert!(widths.iter().max().unwrap() - widths.iter().min().unwrap() <= 1);
    }

    #[test]
    fn open_token_is_not_counted_as_copied() {
        let range = Range {
            after: Token(0),
            through: Token(100),
            copied: Token(0),
            tally: Tally::default(),
        };
        let mut cursor = Cursor::new(range);
        cursor.take(Token(7), row(1));
        cursor.take(Token(7), row(0));
        assert_eq!(cursor.range(), Range { copied: Token(6), ..range });
        // A second partition with the same token.
        cursor.take(Token(7), row(1));
        assert_eq!(cursor.range(), Range { copied: Token(6), ..range });
        cursor.take(Token(30), row(1));
        let tally = Tally { rows: 3, partitions: 2, bytes: 30 };
        assert_eq!(cursor.range(), Range { copied: Token(29), tally, ..range });
        cursor.finish();
        let tally = Tally { rows: 4, partitions: 3, bytes: 40 };
        assert_eq!(cursor.range(), Range { copied: Token(100), tally, ..range });
        assert!(cursor.range().is_done());
    }

    #[test]
    fn smallest_token_keeps_the_progress() {
        let range = plan()[0];
        let mut cursor = Cursor::new(range);
        cursor.take(Token(i64::MIN), row(1));
        assert_eq!(cursor.range().copied, range.copied);
        cursor.take(Token(i64::MIN + 1), row(1));
        assert_eq!(cursor.range().copied, Token(i64::MIN));
    }
}

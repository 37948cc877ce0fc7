//! Answers to conditional writes, read by column names.
//!
//! ```text
//!              applied             refused
//! Cassandra    one row, true       a row for each entry that exists, in the order of columns;
//!                                  none exists: one row with the epoch; no row: nothing else
//! ScyllaDB     a row for each statement, in their order, also when applied; absent is null
//! ```

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{RowAnswer, StoredEntry};
use scylla::value::CqlValue;

/// A result set of any shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultSet {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Option<CqlValue>>>,
}

/// Description of an invalid answer.
pub(crate) type Misread = String;

impl ResultSet {
    /// Returns a row's value in the named column; `None` also if there is no such column.
    fn value<'a>(&self, row: &'a [Option<CqlValue>], name: &str) -> Option<&'a CqlValue> {
        let place = self.names.iter().position(|column| column == name)?;
        row.get(place)?.as_ref()
    }

    fn blob(&self, row: &[Option<CqlValue>], name: &str) -> Result<Option<Bytes>, Misread> {
        match self.value(row, name) {
            None => Ok(None),
            Some(CqlValue::Blob(bytes)) => Ok(Some(Bytes::copy_from_slice(bytes))),
            Some(other) => Err(format!("{name} is {other:?}, not a blob")),
        }
    }

    /// Returns `true` if the conditions held. They hold for all statements or for none.
    pub(crate) fn is_applied(&self) -> Result<bool, Misread> {
        let mut seen = BTreeSet::new();
        for row in &self.rows {
            match self.value(row, "[applied]") {
                Some(CqlValue::Boolean(applied)) => seen.insert(*applied),
                other => return Err(format!("[applied] is {other:?}")),
            };
        }
        match (seen.len(), seen.first()) {
            (1, Some(applied)) => Ok(*applied),
            (0, _) => Err("no row has [applied]".into()),
            _ => Err("applied in part".into()),
        }
    }

    /// Returns the value of a column from the first row that has one.
    pub(crate) fn first_blob(&self, name: &str) -> Result<Option<Bytes>, Misread> {
        for row in &self.rows {
            if let Some(value) = self.blob(row, name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Returns the partition's epoch, which any row may have.
    pub(crate) fn epoch(&self) -> Result<Option<Epoch>, Misread> {
        for row in &self.rows {
            match self.value(row, "epoch") {
                None => {}
                Some(CqlValue::BigInt(epoch)) => return epoch_of(*epoch).map(Some),
                Some(other) => return Err(format!("epoch is {other:?}, not a number")),
            }
        }
        Ok(None)
    }

    /// Reads the answer to a conditional batch that named these columns.
    pub(crate) fn read(&self, asked: &BTreeSet<&Bytes>) -> Result<RowAnswer, Misread> {
        if self.is_applied()? {
            return Ok(RowAnswer::Applied);
        }
        let mut existing = BTreeMap::new();
        for row in &self.rows {
            let Some(column) = self.blob(row, "col")?.filter(|column| asked.contains(column))
            else {
                continue;
            };
            let (staged, confirmed) = (self.blob(row, "s")?, self.blob(row, "c")?);
            if staged.is_some() || confirmed.is_some() {
                existing.insert(column.clone(), StoredEntry { column, staged, confirmed });
            }
        }
        let existing = existing.into_values().collect();
        Ok(RowAnswer::Refused { epoch: self.epoch()?, existing })
    }
}

/// Converts an epoch.
pub(crate) fn epoch_of(number: i64) -> Result<Epoch, Misread> {
    u64::try_from(number).map(Epoch).map_err(|_| format!("the epoch is {number}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blob(bytes: &str) -> Option<CqlValue> {
        Some(CqlValue::Blob(bytes.into()))
    }

    fn flag(applied: bool) -> Option<CqlValue> {
        Some(CqlValue::Boolean(applied))
    }

    fn epoch(number: i64) -> Option<CqlValue> {
        Some(CqlValue::BigInt(number))
    }

    fn answer(names: &[&str], rows: Vec<Vec<Option<CqlValue>>>) -> ResultSet {
        ResultSet { names: names.iter().map(ToString::to_string).collect(), rows }
    }

    fn read(answer: &ResultSet, asked: &[&'static str]) -> Result<RowAnswer, Misread> {
        let asked: Vec<Bytes> =
            asked.iter().map(|name| Bytes::from_static(name.as_bytes())).collect();
        answer.read(&asked.iter().collect())
    }

    fn stored(column: &'static str, staged: &'static str) -> StoredEntry {
        let staged = Some(Bytes::from_static(staged.as_bytes()));
        StoredEntry { column: column.into(), staged, confirmed: None }
    }

    /// Columns of a refused batch of a fence and inserts, recorded from Cassandra 5.0.6.
    const CASSANDRA: [&str; 6] = ["[applied]", "row", "col", "epoch", "c", "s"];
    /// The same for ScyllaDB, made up from its documentation.
    const SCYLLA: [&str; 6] = ["[applied]", "row", "col", "epoch", "c", "s"];

    #[test]
    fn cassandra_answers_applied_without_values() {
        let applied = answer(&["[applied]"], vec![vec![flag(true)]]);
        assert_eq!(read(&applied, &["a", "b"]), Ok(RowAnswer::Applied));
    }

    #[test]
    fn cassandra_orders_existing_entries_by_column() {
        let row = |col, s| vec![flag(false), blob("r"), blob(col), epoch(7), None, blob(s)];
        let refused = answer(&CASSANDRA, vec![row("a", "1"), row("c", "3")]);
        // The statements were in the order c, b, a.
        assert_eq!(
            read(&refused, &["c", "b", "a"]),
            Ok(RowAnswer::Refused {
                epoch: Some(Epoch(7)),
                existing: vec![stored("a", "1"), stored("c", "3")]
            })
        );
    }

    #[test]
    fn cassandra_returns_only_the_epoch_without_entries() {
        let fresh = vec![flag(false), blob("r"), None, epoch(7), None, None];
        let refused = RowAnswer::Refused { epoch: Some(Epoch(7)), existing: Vec::new() };
        assert_eq!(read(&answer(&CASSANDRA, vec![fresh]), &["a"]), Ok(refused));
        let never_initialised = answer(&["[applied]"], vec![vec![flag(false)]]);
        let refused = RowAnswer::Refused { epoch: None, existing: Vec::new() };
        assert_eq!(read(&never_initialised, &["a"]), Ok(refused));
    }

    #[test]
    fn cassandra_returns_only_columns_of_conditions() {
        let row = |col, s| vec![flag(false), blob("r"), blob(col), blob(s)];
        let refused = answer(&["[applied]", "row", "col", "s"], vec![row("a", "1"), row("b", "2")]);
        let existing = vec![stored("a", "1"), stored("b", "2")];
        assert_eq!(read(&refused, &["b", "a"]), Ok(RowAnswer::Refused { epoch: None, existing }));
        // A refused put without a fence returns no epoch, although there is one.
        let row = vec![flag(false), blob("r"), blob("a"), None, None, blob("1")];
        let existing = vec![stored("a", "1")];
        let refused = answer(&CASSANDRA, vec![row]);
        assert_eq!(read(&refused, &["a"]), Ok(RowAnswer::Refused { epoch: None, existing }));
    }

    #[test]
    fn scylla_answers_for_each_statement() {
        let fence = |applied| vec![flag(applied), blob("r"), None, epoch(7), None, None];
        let absent = |applied| vec![flag(applied), None, None, None, None, None];
        let there = vec![flag(false), blob("r"), blob("c"), epoch(7), blob("3"), blob("3")];
        let applied = answer(&SCYLLA, vec![fence(true), absent(true), absent(true)]);
        assert_eq!(read(&applied, &["a", "b"]), Ok(RowAnswer::Applied));
        let refused = answer(&SCYLLA, vec![fence(false), absent(false), there]);
        let existing = vec![StoredEntry { confirmed: Some("3".into()), ..stored("c", "3") }];
        assert_eq!(
            read(&refused, &["b", "c"]),
            Ok(RowAnswer::Refused { epoch: Some(Epoch(7)), existing })
        );
        // A row that never had an epoch.
        let refused = answer(&SCYLLA, vec![absent(false), absent(false)]);
        let nothing = RowAnswer::Refused { epoch: None, existing: Vec::new() };
        assert_eq!(read(&refused, &["a"]), Ok(nothing));
    }

    #[test]
    fn columns_are_found_by_name() {
        let names = ["s", "col", "[applied]", "epoch"];
        let refused = answer(&names, vec![vec![blob("1"), blob("a"), flag(false), epoch(2)]]);
        let existing = vec![stored("a", "1")];
        assert_eq!(
            read(&refused, &["a"]),
            Ok(RowAnswer::Refused { epoch: Some(Epoch(2)), existing })
        );
    }

    #[test]
    fn contradictory_or_empty_answer_is_rejected() {
        assert!(answer(&["[applied]"], Vec::new()).is_applied().is_err());
        assert!(answer(&["applied"], vec![vec![flag(true)]]).is_applied().is_err());
        assert!(answer(&["[applied]"], vec![vec![None]]).is_applied().is_err());
        let both = answer(&["[applied]"], vec![vec![flag(true)], vec![flag(false)]]);
        assert!(both.is_applied().is_err());
        let negative = answer(&["[applied]", "epoch"], vec![vec![flag(false), epoch(-1)]]);
        assert!(read(&negative, &[]).is_err());
    }

    fn any_value() -> impl Strategy<Value = Option<CqlValue>> {
        prop_oneof![
            Just(None),
            any::<bool>().prop_map(|flag| Some(CqlValue::Boolean(flag))),
            any::<i64>().prop_map(|number| Some(CqlValue::BigInt(number))),
            any::<String>().prop_map(|text| Some(CqlValue::Text(text))),
            proptest::sample::select(vec!["", "a", "b"]).prop_map(blob),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn any_rows_are_read_or_refused(
            names in proptest::collection::vec(proptest::sample::select(CASSANDRA.to_vec()), 0..7),
            rows in proptest::collection::vec(proptest::collection::vec(any_value(), 0..7), 0..5),
        ) {
            if let Ok(RowAnswer::Refused { existing, .. }) = read(&answer(&names, rows), &["a"]) {
                prop_assert!(existing.iter().all(|stored| stored.column == "a"));
            }
        }
    }
}

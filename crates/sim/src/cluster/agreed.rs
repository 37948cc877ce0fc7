//! What conditional writes agree on, row by row and register by register, and what is in doubt.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{CommitRow, NewEntry, Register, RowAnswer, StoredEntry};

use crate::dice::Dice;

/// All partitions that rounds are run on.
#[derive(Default)]
pub(super) struct Agreed {
    rows: BTreeMap<CommitRow, Settling<Row>>,
    registers: BTreeMap<Register, Settling<Option<Bytes>>>,
}

/// A value that rounds are run on.
pub(super) trait Partition: Clone + Default {
    type Name: Clone + Ord;

    fn of(agreed: &mut Agreed) -> &mut BTreeMap<Self::Name, Settling<Self>>;

    /// What a doubt adds to what is agreed on, if anything: one replica may keep it for itself.
    fn added(doubt: &Self, agreed: &Self) -> Option<Self>;

    /// Adds it.
    fn with(&self, added: &Self) -> Self;
}

impl Partition for Row {
    type Name = CommitRow;

    /// Entries; what the others have for a column is newer.
    fn added(doubt: &Self, agreed: &Self) -> Option<Self> {
        let mut added = Self { epoch: None, ..doubt.clone() };
        added.entries.retain(|column, _| !agreed.entries.contains_key(column));
        (!added.entries.is_empty()).then_some(added)
    }

    fn with(&self, added: &Self) -> Self {
        let mut row = self.clone();
        row.entries.extend(added.entries.clone());
        row
    }

    fn of(agreed: &mut Agreed) -> &mut BTreeMap<CommitRow, Settling<Self>> {
        &mut agreed.rows
    }
}

impl Partition for Option<Bytes> {
    type Name = Register;

    /// Nothing: there is one value, and the others' is newer.
    fn added(_: &Self, _: &Self) -> Option<Self> {
        None
    }

    fn with(&self, _: &Self) -> Self {
        self.clone()
    }

    fn of(agreed: &mut Agreed) -> &mut BTreeMap<Register, Settling<Self>> {
        &mut agreed.registers
    }
}

/// A value, and at most one that may come to be in its place.
#[derive(Default)]
pub(super) struct Settling<P> {
    pub(super) value: P,
    pub(super) doubt: Option<Doubt<P>>,
}

/// What a round without an answer has left on one replica.
pub(super) struct Doubt<P> {
    pub(super) value: P,
    pub(super) replica: usize,
    /// When it is completed by itself, if nobody settles it before.
    pub(super) ends: Option<Duration>,
}

impl<P: Partition> Settling<P> {
    /// Completes what is in doubt, or passes it by: a round asks two replicas of three. What was
    /// passed by is returned, as far as it adds something.
    pub(super) fn settle(&mut self, dice: &mut Dice) -> Option<Doubt<P>> {
        let doubt = self.doubt.take()?;
        if dice.below(3) < 2 {
            self.value = doubt.value;
            return None;
        }
        P::added(&doubt.value, &self.value).map(|value| Doubt { value, ..doubt })
    }

    /// Agrees on a value, or on none, in a round that has passed something by: what the value does
    /// not replace stays on its replica.
    pub(super) fn agree(&mut self, next: Option<P>, passed: Option<Doubt<P>>) {
        if let Some(next) = next {
            self.value = next;
        }
        self.doubt = passed.and_then(|doubt| {
            let added = P::added(&doubt.value, &self.value)?;
            Some(Doubt { value: self.value.with(&added), ..doubt })
        });
    }

    fn advance(&mut self, now: Duration) {
        let is_over = |doubt: &mut Doubt<P>| doubt.ends.is_some_and(|ends| ends <= now);
        if let Some(doubt) = self.doubt.take_if(is_over) {
            self.value = doubt.value;
        }
    }

    fn seen(&self, asks: impl Fn(usize) -> bool) -> &P {
        let doubt = self.doubt.as_ref().filter(|doubt| asks(doubt.replica));
        doubt.map_or(&self.value, |doubt| &doubt.value)
    }
}

impl Agreed {
    /// Completes what completes itself.
    pub(super) fn advance(&mut self, now: Duration) {
        self.rows.values_mut().for_each(|row| row.advance(now));
        self.registers.values_mut().for_each(|register| register.advance(now));
    }

    /// What a plain read of some replicas sees of a row.
    pub(super) fn seen_row(&self, row: &CommitRow, asks: impl Fn(usize) -> bool) -> Option<&Row> {
        self.rows.get(row).map(|row| row.seen(asks))
    }

    /// What a plain read of some replicas sees of a register.
    pub(super) fn seen_register(
        &self,
        register: Register,
        asks: impl Fn(usize) -> bool,
    ) -> Option<Bytes> {
        self.registers.get(&register).and_then(|register| register.seen(asks).clone())
    }
}

/// A row of the commit table.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    epoch: Option<Epoch>,
    pub(super) entries: BTreeMap<Bytes, Bytes>,
}

impl Row {
    fn refusal(&self, entries: &[NewEntry]) -> RowAnswer {
        let stored = |NewEntry { column, .. }: &NewEntry| {
            let staged = Some(self.entries.get(column)?.clone());
            Some(StoredEntry { column: column.clone(), staged, confirmed: None })
        };
        RowAnswer::Refused {
            epoch: self.epoch,
            existing: entries.iter().filter_map(stored).collect(),
        }
    }

    pub(super) fn put(
        &self,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> (Option<Self>, RowAnswer) {
        let is_fenced_out = fence.is_some() && fence != self.epoch;
        let exists = entries.iter().any(|entry| self.entries.contains_key(&entry.column));
        if is_fenced_out || exists {
            return (None, self.refusal(entries));
        }
        let mut next = self.clone();
        next.entries
            .extend(entries.iter().map(|entry| (entry.column.clone(), entry.value.clone())));
        (Some(next), RowAnswer::Applied)
    }

    pub(super) fn touch(&self, entries: &[NewEntry]) -> (Option<Self>, RowAnswer) {
        let holds = |entry: &NewEntry| self.entries.get(&entry.column) == Some(&entry.value);
        if entries.iter().all(holds) {
            (Some(self.clone()), RowAnswer::Applied)
        } else {
            (None, self.refusal(entries))
        }
    }

    pub(super) fn raise(&self, from: Option<Epoch>, to: Epoch) -> (Option<Self>, RowAnswer) {
        if self.epoch == from {
            (Some(Self { epoch: Some(to), ..self.clone() }), RowAnswer::Applied)
        } else {
            (None, self.refusal(&[]))
        }
    }

    pub(super) fn without(&self, columns: &[Bytes]) -> Self {
        let mut next = self.clone();
        next.entries.retain(|column, _| !columns.contains(column));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(column: &'static str, value: &'static str) -> NewEntry {
        NewEntry { column: Bytes::from_static(column.as_bytes()), value: value.into() }
    }

    /// A row with an entry on one replica alone.
    fn doubtful() -> Settling<Row> {
        let (next, _) = Row::default().put(None, &[entry("x", "old")]);
        let doubt = Doubt { value: next.unwrap(), replica: 0, ends: None };
        Settling { value: Row::default(), doubt: Some(doubt) }
    }

    /// Passes by what is in doubt.
    fn passed(row: &mut Settling<Row>) -> Option<Doubt<Row>> {
        let doubt = row.doubt.take().unwrap();
        Row::added(&doubt.value, &row.value).map(|value| Doubt { value, ..doubt })
    }

    fn seen(row: &Settling<Row>) -> Option<Bytes> {
        row.seen(|replica| replica == 0).entries.get(&entry("x", "").column).cloned()
    }

    #[test]
    fn a_fence_passes_an_entry_by_and_a_marker_in_its_column_ends_it() {
        let mut row = doubtful();
        let doubt = passed(&mut row);
        let (fenced, answer) = row.value.raise(None, Epoch(2));
        assert_eq!(answer, RowAnswer::Applied);
        row.agree(fenced, doubt);
        assert_eq!(seen(&row), Some("old".into()));
        assert!(row.value.entries.is_empty(), "nothing is agreed on");
        assert_eq!(row.doubt.as_ref().unwrap().value.epoch, Some(Epoch(2)));
        let doubt = passed(&mut row);
        let (marked, _) = row.value.put(None, &[entry("x", "abort")]);
        row.agree(marked, doubt);
        assert_eq!((seen(&row), row.doubt.is_some()), (Some("abort".into()), false));
    }

    #[test]
    fn what_is_deleted_does_not_come_back_from_a_touch_that_is_in_doubt() {
        let mut row = Settling { value: doubtful().doubt.unwrap().value, doubt: None };
        let (touched, _) = row.value.touch(&[entry("x", "old")]);
        row.doubt = Some(Doubt { value: touched.unwrap(), replica: 0, ends: None });
        let doubt = passed(&mut row);
        let deleted = row.value.without(&[entry("x", "").column]);
        row.agree(Some(deleted), doubt);
        assert_eq!(seen(&row), None);
    }
}

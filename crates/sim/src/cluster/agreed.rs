//! The agreed state of rows and registers under conditional writes, and the writes in doubt.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::{Bytes, Epoch};
use carnet_store::cluster::{CommitRow, NewEntry, Register, RowAnswer, StoredEntry};

use crate::random::Random;

/// All partitions with Paxos rounds.
#[derive(Default)]
pub(super) struct Agreed {
    rows: BTreeMap<CommitRow, Settling<Row>>,
    registers: BTreeMap<Register, Settling<Option<Bytes>>>,
}

/// A value with Paxos rounds.
pub(super) trait Partition: Clone + Default {
    type Name: Clone + Ord;

    fn all_mut(agreed: &mut Agreed) -> &mut BTreeMap<Self::Name, Settling<Self>>;

    /// Returns the addition of a write in doubt to the agreed value, if any: one replica may keep
    /// it.
    fn added(doubt: &Self, agreed: &Self) -> Option<Self>;

    /// Returns the value with an addition.
    fn with(&self, added: &Self) -> Self;
}

impl Partition for Row {
    type Name = CommitRow;

    /// Adds entries; the agreed entry of a column is newer.
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

    fn all_mut(agreed: &mut Agreed) -> &mut BTreeMap<CommitRow, Settling<Self>> {
        &mut agreed.rows
    }
}

impl Partition for Option<Bytes> {
    type Name = Register;

    /// Adds nothing: there is one value, and the agreed one is newer.
    fn added(_: &Self, _: &Self) -> Option<Self> {
        None
    }

    fn with(&self, _: &Self) -> Self {
        self.clone()
    }

    fn all_mut(agreed: &mut Agreed) -> &mut BTreeMap<Register, Settling<Self>> {
        &mut agreed.registers
    }
}

/// An agreed value, and at most one write in doubt that may replace it.
#[derive(Default)]
pub(super) struct Settling<P> {
    pub(super) value: P,
    pub(super) doubt: Option<Doubt<P>>,
}

/// The effect of an unanswered round on one replica.
pub(super) struct Doubt<P> {
    pub(super) value: P,
    pub(super) replica: usize,
    /// Time at which it completes by itself, unless it is settled before.
    pub(super) ends: Option<Duration>,
}

impl<P: Partition> Settling<P> {
    /// Completes the write in doubt, or misses it: a round uses two replicas of three. Returns a
    /// missed write if it adds something.
    pub(super) fn settle(&mut self, random: &mut Random) -> Option<Doubt<P>> {
        let doubt = self.doubt.take()?;
        if random.below(3) < 2 {
            self.value = doubt.value;
            return None;
        }
        P::added(&doubt.value, &self.value).map(|value| Doubt { value, ..doubt })
    }

    /// Agrees on a value, or on none, in a round that has missed a write: the part that the value
    /// does not replace stays on its replica.
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
    /// Completes the writes that complete by themselves.
    pub(super) fn advance(&mut self, now: Duration) {
        self.rows.values_mut().for_each(|row| row.advance(now));
        self.registers.values_mut().for_each(|register| register.advance(now));
    }

    /// Returns a row as a plain read of some replicas sees it.
    pub(super) fn seen_row(&self, row: &CommitRow, asks: impl Fn(usize) -> bool) -> Option<&Row> {
        self.rows.get(row).map(|row| row.seen(asks))
    }

    /// Returns a register as a plain read of some replicas sees it.
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

    /// Returns a row with an entry on a single replica.
    fn doubtful() -> Settling<Row> {
        let (next, _) = Row::default().put(None, &[entry("x", "old")]);
        let doubt = Doubt { value: next.unwrap(), replica: 0, ends: None };
        Settling { value: Row::default(), doubt: Some(doubt) }
    }

    /// Lets a round miss the write in doubt.
    fn passed(row: &mut Settling<Row>) -> Option<Doubt<Row>> {
        let doubt = row.doubt.take().unwrap();
        Row::added(&doubt.value, &row.value).map(|value| Doubt { value, ..doubt })
    }

    fn seen(row: &Settling<Row>) -> Option<Bytes> {
        row.seen(|replica| replica == 0).entries.get(&entry("x", "").column).cloned()
    }

    #[test]
    fn entry_missed_by_a_fence_lives_until_overwritten() {
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
    fn touch_in_doubt_revives_no_deleted_entry() {
        let mut row = Settling { value: doubtful().doubt.unwrap().value, doubt: None };
        let (touched, _) = row.value.touch(&[entry("x", "old")]);
        row.doubt = Some(Doubt { value: touched.unwrap(), replica: 0, ends: None });
        let doubt = passed(&mut row);
        let deleted = row.value.without(&[entry("x", "").column]);
        row.agree(Some(deleted), doubt);
        assert_eq!(seen(&row), None);
    }
}

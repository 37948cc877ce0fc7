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
}

impl Partition for Row {
    type Name = CommitRow;

    fn of(agreed: &mut Agreed) -> &mut BTreeMap<CommitRow, Settling<Self>> {
        &mut agreed.rows
    }
}

impl Partition for Option<Bytes> {
    type Name = Register;

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

impl<P: Clone> Settling<P> {
    /// Completes what is in doubt, or makes it impossible: a round asks two replicas of three.
    pub(super) fn settle(&mut self, dice: &mut Dice) {
        if let Some(doubt) = self.doubt.take()
            && dice.below(3) < 2
        {
            self.value = doubt.value;
        }
    }

    fn advance(&mut self, now: Duration) {
        let is_over = |doubt: &mut Doubt<P>| doubt.ends.is_some_and(|ends| ends <= now);
        if let Some(doubt) = self.doubt.take_if(is_over) {
            self.value = doubt.value;
        }
    }

    fn seen(&self, asks: impl Fn(usize) -> bool) -> P {
        let doubt = self.doubt.as_ref().filter(|doubt| asks(doubt.replica));
        doubt.map_or(&self.value, |doubt| &doubt.value).clone()
    }
}

impl Agreed {
    /// Completes what completes itself.
    pub(super) fn advance(&mut self, now: Duration) {
        self.rows.values_mut().for_each(|row| row.advance(now));
        self.registers.values_mut().for_each(|register| register.advance(now));
    }

    /// What a plain read of some replicas sees of a row.
    pub(super) fn seen_row(&self, row: &CommitRow, asks: impl Fn(usize) -> bool) -> Row {
        self.rows.get(row).map(|row| row.seen(asks)).unwrap_or_default()
    }

    /// What a plain read of some replicas sees of a register.
    pub(super) fn seen_register(
        &self,
        register: Register,
        asks: impl Fn(usize) -> bool,
    ) -> Option<Bytes> {
        self.registers.get(&register).and_then(|register| register.seen(asks))
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

//! Places that clients share, and who may take one.
//!
//! Each client has a maximum, by default half of all places. Two clients could then hold all between
//! them, so the last eighth is kept for clients that hold few:
//!
//! ```text
//!   0                                     7/8 of all       all
//!   ├──── every client, to its maximum ────┼── fewer than ──┤
//!                                              1/64 of all each
//! ```

/// Inverse of the part that is kept for clients that hold few places.
const KEPT: usize = 8;
/// Inverse of the part that such a client may hold.
const FEW: usize = 64;

/// Numbers of places that clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Number of all places.
    pub total: usize,
    /// Maximum number of places of one client.
    pub per_client_max: usize,
}

impl Places {
    /// Creates places. One client may hold half of them.
    #[must_use]
    pub const fn shared(total: usize) -> Self {
        Self { total, per_client_max: total.div_ceil(2) }
    }

    /// Returns `true` if a client that holds `own` of the `taken` places may take another one.
    #[must_use]
    pub const fn admits(self, taken: usize, own: usize) -> bool {
        let few = self.total / FEW;
        let is_few = own < if few > 1 { few } else { 1 };
        let free = self.total.saturating_sub(taken);
        free > 0 && own < self.per_client_max && (free > self.total / KEPT || is_few)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes places for a client until it gets no more.
    fn fill(places: Places, taken: &mut usize) -> usize {
        let mut own = 0;
        while places.admits(*taken, own) {
            own += 1;
            *taken += 1;
        }
        own
    }

    #[test]
    fn two_greedy_clients_leave_places_for_others() {
        let places = Places::shared(1_000);
        let mut taken = 0;
        assert_eq!(fill(places, &mut taken), 500);
        assert_eq!(fill(places, &mut taken), 375);
        let others: Vec<usize> = (0..9).map(|_| fill(places, &mut taken)).collect();
        assert_eq!(others, [15, 15, 15, 15, 15, 15, 15, 15, 5]);
        assert_eq!(fill(places, &mut taken), 0);
        assert_eq!(taken, 1_000);
    }

    #[test]
    fn few_places_are_shared_as_well() {
        for total in 1..40 {
            let (places, mut taken) = (Places::shared(total), 0);
            let first = fill(places, &mut taken);
            assert!(first >= 1 && first <= total.div_ceil(2), "{total}");
            while fill(places, &mut taken) > 0 {}
            assert_eq!(taken, total, "every place can be taken");
        }
        assert!(!Places { total: 5, per_client_max: 2 }.admits(2, 2));
    }
}

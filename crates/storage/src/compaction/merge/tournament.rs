//! Selects the next of *k* sorted inputs.
//!
//! A loser tree: each inner node holds the input that lost its match, the root holds the winner.
//! When the winner's input advances, it is compared only with the losers on its path: log₂ *k*
//! comparisons, where a binary heap takes up to twice as many.
//!
//! ```text
//!            winner 2              inputs and their current keys:
//!          ┌───┴───┐               0: c   1: d   2: a   3: b
//!          0       .               node 1 (the final) holds loser 0,
//!        ┌─┴─┐   ┌─┴─┐             node 2 (0 against 1) holds loser 1,
//!        0   1   2   3             node 3 (2 against 3) holds loser 3
//! ```

/// Loser tree over the inputs `0..k`.
#[derive(Debug)]
pub(crate) struct Tournament {
    /// Node 0 holds the winner; nodes 1 to *k* − 1 their losers. Input *i* is leaf *k* + *i*.
    nodes: Vec<usize>,
}

impl Tournament {
    /// Plays all matches; `wins(a, b)` returns `true` if *a* comes before *b*.
    pub(crate) fn new(k: usize, mut wins: impl FnMut(usize, usize) -> bool) -> Self {
        let mut nodes = vec![0; k.max(1)];
        // Winners of the subtrees; a node's children are the nodes 2n and 2n + 1.
        let mut winners: Vec<usize> = (0..2 * k).map(|node| node.saturating_sub(k)).collect();
        for node in (1..k).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], nodes[node]) =
                if wins(right, left) { (right, left) } else { (left, right) };
        }
        nodes[0] = winners.get(1).copied().unwrap_or(0);
        Self { nodes }
    }

    /// Returns the next input.
    pub(crate) fn winner(&self) -> usize {
        self.nodes[0]
    }

    /// Replays the winner's matches after its input has advanced.
    pub(crate) fn replay(&mut self, mut wins: impl FnMut(usize, usize) -> bool) {
        let mut winner = self.nodes[0];
        let mut node = (self.nodes.len() + winner) / 2;
        while node > 0 {
            if wins(self.nodes[node], winner) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn inputs_come_in_order_for_any_count() {
        for k in 1..20 {
            let mut rng = SeededRng::new(k);
            let mut inputs: Vec<Vec<u64>> = (0..k)
                .map(|_| {
                    let mut input: Vec<u64> =
                        (0..rng.below(30)).map(|_| rng.below(50)).chain([u64::MAX]).collect();
                    input.sort_unstable_by(|left, right| right.cmp(left));
                    input
                })
                .collect();
            let mut expected: Vec<u64> = inputs.iter().flatten().copied().collect();
            expected.sort_unstable();
            let wins = |inputs: &[Vec<u64>], left: usize, right: usize| {
                inputs[left].last() < inputs[right].last()
            };
            let count = inputs.len();
            let mut tournament = Tournament::new(count, |l, r| wins(&inputs, l, r));
            let mut merged = Vec::new();
            while merged.len() < expected.len() - count {
                let winner = &mut inputs[tournament.winner()];
                merged.push(winner.pop().unwrap());
                tournament.replay(|l, r| wins(&inputs, l, r));
            }
            assert_eq!(merged, expected[..merged.len()], "{count} inputs");
        }
    }
}

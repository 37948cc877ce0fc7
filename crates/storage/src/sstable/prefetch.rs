//! Asks memory for what will be looked at soon.
//!
//! A look-up that misses the processor's caches goes from load to load, each of which says where the
//! next one is. Whoever knows an address earlier can have several of them on their way at once.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the compiler does not know the instruction to be harmless")
)]

/// Asks for the cache line of an address. It is a hint: an address at which nothing lies any more is
/// as good as any other, and machines without such an instruction do nothing.
pub(super) fn ask(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes no state that a program can see and never faults, whatever the
        // address (Intel SDM, volume 2, PREFETCHh).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// What memory gives at once.
pub(super) const LINE_BYTES: usize = 64;

/// Asks for each cache line of so many bytes.
pub(super) fn ask_all(address: usize, bytes: usize) {
    for at in (address..address + bytes).step_by(LINE_BYTES) {
        ask(at);
    }
}

/// A stretch of memory that is asked for little by little, while something else is done: asked for
/// at once, it would be waited for, because only some ten lines can be on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    at: usize,
    end: usize,
}

impl Stretch {
    pub(super) const fn new(at: usize, bytes: usize) -> Self {
        Self { at, end: at + bytes }
    }

    /// Asks for about so many further bytes.
    pub(super) fn ask(&mut self, bytes: usize) {
        let to = self.end.min(self.at.saturating_add(bytes));
        while self.at < to {
            ask(self.at);
            self.at += LINE_BYTES;
        }
    }

    /// Tells whether there is nothing to ask for.
    pub(super) const fn is_empty(&self) -> bool {
        self.end == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_asked_for_to_its_end() {
        let asked = |mut stretch: Stretch| {
            let mut lines = Vec::new();
            while stretch.at < stretch.end {
                lines.push(stretch.at);
                stretch.ask(1);
            }
            lines
        };
        assert_eq!(asked(Stretch::new(1000, 200)), [1000, 1064, 1128, 1192]);
        assert_eq!(asked(Stretch::default()), [0; 0]);
        let mut all = Stretch::new(1000, 200);
        all.ask(usize::MAX);
        assert!(all.at >= all.end && !all.is_empty());
    }
}

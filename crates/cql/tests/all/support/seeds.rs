//! Seeds of random tests.

use carnet_base::SeededRng;

/// Runs a test with a number of seeds, or only with `CARNET_SEED` if that is set.
pub(crate) fn with_seeds(count: u64, test: impl Fn(&mut SeededRng)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {0}: set CARNET_SEED={0} to replay it alone", self.0);
            }
        }
    }
    let seeds = match std::env::var("CARNET_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("CARNET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count,
    };
    for seed in seeds {
        let seed = Seed(seed);
        test(&mut SeededRng::new(seed.0));
    }
}

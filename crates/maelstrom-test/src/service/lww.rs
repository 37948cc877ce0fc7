//! `lww-kv`: two copies, of which a random one answers. Before that, one copy may receive the
//! writes that it has missed from the other. The last write wins, by a Lamport clock.

use std::collections::HashMap;

use carnet_base::{Rng, SeededRng};
use serde_json::Value;

use super::interface::{Service, unsupported};
use super::request::{KvRequest, decide, request};

#[derive(Default)]
pub(crate) struct Lww([Copy; 2]);

#[derive(Default)]
struct Copy {
    clock: u64,
    values: HashMap<String, (u64, Value)>,
    /// Keys whose newest values the other copy has not received yet.
    news: Vec<String>,
}

impl Copy {
    fn receive(&mut self, clock: u64, news: Vec<(String, (u64, Value))>) {
        self.clock = self.clock.max(clock);
        for (key, (at, value)) in news {
            match self.values.get(&key) {
                // Of two concurrent writes, the same one must win in both copies.
                Some((own, held)) if (*own, held.to_string()) >= (at, value.to_string()) => {}
                _ => {
                    self.values.insert(key, (at, value));
                }
            }
        }
    }
}

impl Service for Lww {
    fn handle(&mut self, _: &str, body: &Value, rng: &mut SeededRng) -> Value {
        let Some((key, mut request)) = request(body) else { return unsupported() };
        // Maelstrom's `lww-kv` ignores this field.
        if let KvRequest::Cas { creates, .. } = &mut request {
            *creates = false;
        }
        let mut draw = || usize::from(rng.chance(500));
        let (sender, receiver, answerer) = (draw(), draw(), draw());
        if sender != receiver {
            let Copy { clock, values, news } = &mut self.0[sender];
            let news =
                news.drain(..).filter_map(|key| Some((key.clone(), values.get(&key)?.clone())));
            let (clock, news) = (*clock, news.collect());
            self.0[receiver].receive(clock, news);
        }
        let copy = &mut self.0[answerer];
        let (answer, value) = decide(copy.values.get(&key).map(|(_, value)| value), &request);
        if let Some(value) = value {
            copy.values.insert(key.clone(), (copy.clock, value));
            copy.clock += 1;
            copy.news.push(key);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_copies_return_a_write_after_a_while() {
        let (mut missed, rounds) = (0, 200);
        for seed in 0..rounds {
            let (mut lww, mut rng) = (Lww::default(), SeededRng::new(seed));
            let write = json!({"type": "write", "key": 1, "value": "x"});
            assert_eq!(lww.handle("n0", &write, &mut rng)["type"], "write_ok");
            let mut read = || lww.handle("n0", &json!({"type": "read", "key": 1}), &mut rng);
            missed += u64::from(read()["code"] == 20);
            (0..100).for_each(|_| drop(read()));
            assert!((0..20).all(|_| read()["value"] == "x"), "seed {seed}");
        }
        assert!((rounds / 5..rounds / 2).contains(&missed), "{missed} of {rounds}");
    }

    #[test]
    fn both_copies_agree_on_the_last_write() {
        for seed in 0..200 {
            let (mut lww, mut rng) = (Lww::default(), SeededRng::new(seed));
            for value in 0..10 {
                lww.handle("n0", &json!({"type": "write", "key": 1, "value": value}), &mut rng);
            }
            let mut read = || lww.handle("n0", &json!({"type": "read", "key": 1}), &mut rng);
            (0..200).for_each(|_| drop(read()));
            let last = read();
            assert!((0..20).all(|_| read() == last), "seed {seed}");
        }
    }
}

//! Tests of the registry: each decision alone, and random calls against a model.

use carnet_base::{Rng, SeededRng};

use super::*;

const LIMITS: OpenLimits = OpenLimits {
    transactions_max: 3,
    per_client_max: Some(2),
    idle_timeout: Duration::from_secs(60),
};

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn id(number: u64) -> Uuid {
    Uuid::from_u64_pair(number, number)
}

fn owner(client: &str) -> Owner {
    let user = (client != "nobody").then(|| Arc::from(client));
    Owner { client: client.into(), user, name: client.into() }
}

fn statement() -> Arc<Named> {
    Arc::new(Named::new("ks.t", "SELECT v FROM t"))
}

fn start(registry: &mut Registry<u64>, number: u64, client: &str, now: u64) -> Result<(), Refusal> {
    registry.reserve(&owner(client).client)?;
    registry.insert(id(number), owner(client), number, at(now));
    Ok(())
}

#[test]
fn numbers_of_transactions_are_limited() {
    let mut registry = Registry::new(LIMITS);
    start(&mut registry, 1, "ann", 0).unwrap();
    start(&mut registry, 2, "ann", 0).unwrap();
    assert_eq!(start(&mut registry, 3, "ann", 0), Err(Refusal::TooManyOfClient(2)));
    start(&mut registry, 3, "bob", 0).unwrap();
    assert_eq!(start(&mut registry, 4, "cyd", 0), Err(Refusal::TooMany(3)));
    registry.end(id(1), End::RolledBack);
    start(&mut registry, 4, "ann", 0).unwrap();
    assert_eq!(registry.totals().refused, 2);
}

#[test]
fn reserved_place_counts() {
    let mut registry = Registry::<u64>::new(OpenLimits { transactions_max: 1, ..LIMITS });
    registry.reserve(&"ann".into()).unwrap();
    assert_eq!(registry.reserve(&"bob".into()), Err(Refusal::TooMany(1)));
    registry.cancel(&"ann".into());
    registry.reserve(&"bob".into()).unwrap();
}

#[test]
fn transaction_runs_one_statement_at_a_time() {
    let mut registry = Registry::new(LIMITS);
    start(&mut registry, 1, "ann", 0).unwrap();
    let enter =
        |registry: &mut Registry<u64>| registry.enter(id(1), Some("ann"), statement(), at(1));
    assert_eq!(enter(&mut registry), Ok(1));
    assert_eq!(enter(&mut registry), Err(Refusal::Busy));
    assert_eq!(registry.commit(id(1), Some("ann"), at(1)), Err(Refusal::Busy));
    registry.leave(id(1), at(2));
    assert_eq!(enter(&mut registry), Ok(1));
    registry.leave(id(1), at(3));
    assert_eq!(registry.commit(id(1), Some("ann"), at(4)), Ok(1));
    assert_eq!(enter(&mut registry), Err(Refusal::Committing));
    assert!(registry.is_committing(id(1)));
    assert_eq!(registry.close(), [0_u64; 0], "a commit in progress goes on");
}

#[test]
fn only_its_user_enters_a_transaction() {
    let mut registry = Registry::new(LIMITS);
    start(&mut registry, 1, "ann", 0).unwrap();
    start(&mut registry, 2, "nobody", 0).unwrap();
    for user in [None, Some("bob")] {
        assert_eq!(registry.check(id(1), user), Err(Refusal::OtherUser));
        let entered = registry.enter(id(1), user, statement(), at(1));
        assert_eq!(entered, Err(Refusal::OtherUser));
        assert_eq!(registry.commit(id(1), user, at(1)), Err(Refusal::OtherUser));
    }
    assert_eq!(registry.check(id(1), Some("ann")), Ok(()));
    assert_eq!(registry.check(id(2), None), Ok(()));
    registry.end(id(1), End::Killed);
    assert_eq!(registry.check(id(1), Some("bob")), Err(Refusal::OtherUser));
    assert_eq!(registry.check(id(1), Some("ann")), Err(Refusal::NotOpen(Some(End::Killed))));
}

#[test]
fn idle_transactions_expire() {
    let mut registry = Registry::new(LIMITS);
    start(&mut registry, 1, "ann", 0).unwrap();
    start(&mut registry, 2, "ann", 0).unwrap();
    start(&mut registry, 3, "bob", 30).unwrap();
    registry.enter(id(1), Some("ann"), statement(), at(59)).unwrap();
    assert_eq!(registry.expire(at(59)), [0_u64; 0]);
    assert_eq!(registry.expire(at(60)), [2]);
    // The statement of 1 still runs.
    assert_eq!(registry.expire(at(1_000)), [3]);
    registry.leave(id(1), at(1_000));
    assert_eq!(registry.expire_one(id(1), at(1_059)), None);
    assert_eq!(registry.expire_one(id(1), at(1_060)), Some(1));
    let expired = End::Expired(LIMITS.idle_timeout);
    assert_eq!(registry.check(id(1), Some("ann")), Err(Refusal::NotOpen(Some(expired))));
    assert_eq!(registry.totals().expired, 3);
}

#[test]
fn ends_of_old_transactions_are_forgotten() {
    let mut registry = Registry::new(LIMITS);
    for number in 0..=ENDED_MAX as u64 {
        start(&mut registry, number, "nobody", 0).unwrap();
        registry.end(id(number), End::RolledBack);
    }
    assert_eq!(registry.check(id(0), None), Err(Refusal::NotOpen(None)));
    assert_eq!(registry.check(id(1), None), Err(Refusal::NotOpen(Some(End::RolledBack))));
    assert_eq!(registry.ended.len(), ENDED_MAX);
    assert_eq!(registry.ended_order.len(), ENDED_MAX);
}

#[test]
fn random_calls_keep_the_counts() {
    for seed in 0..200 {
        let mut rng = SeededRng::new(seed);
        let mut registry = Registry::new(LIMITS);
        let clients = ["ann", "bob", "nobody"];
        let (mut now, mut next) = (0, 0);
        for _ in 0..200 {
            let client = clients[usize::try_from(rng.below(3)).unwrap()];
            let user = (client != "nobody").then_some(client);
            let some = id(rng.below(next + 1));
            match rng.below(8) {
                0..=2 => {
                    if start(&mut registry, next, client, now).is_ok() {
                        next += 1;
                    }
                }
                3 => drop(registry.enter(some, user, statement(), at(now))),
                4 => registry.leave(some, at(now)),
                5 => drop(registry.commit(some, user, at(now))),
                6 => drop(registry.end(some, End::RolledBack)),
                _ => {
                    now += rng.below(90);
                    registry.expire(at(now));
                }
            }
            let open: Vec<&Open<u64>> = registry.open.values().collect();
            assert_eq!(registry.count, open.len(), "seed {seed}");
            assert!(open.len() <= 3, "seed {seed}");
            for client in clients {
                let of_client = open.iter().filter(|open| &*open.owner.client == client).count();
                let counted = registry.counts.get(client).copied().unwrap_or_default();
                assert_eq!(counted, of_client, "seed {seed}");
                assert!(of_client <= 2, "seed {seed}");
            }
            let totals = registry.totals();
            let ended = totals.rolled_back + totals.expired;
            assert_eq!(totals.started, ended + open.len() as u64, "seed {seed}");
        }
    }
}

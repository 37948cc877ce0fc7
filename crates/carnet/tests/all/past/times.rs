//! Wall times of commits, across restarts, crashes and clock jumps.

use std::time::Duration;

use carnet::backup::{self, Which};
use carnet::{AsOf, Db, ErrorKind, RawTable, Timestamp, WallTime, block_on};
use carnet_base::Clock;
use carnet_storage::disk::sim::SimDisk;

use super::world::{SECOND, World, put};

/// Commits with the wall times of their acknowledgements.
type Commits = Vec<(Timestamp, WallTime)>;

fn commit_some(world: &World, db: &Db, table: &RawTable, pauses: &[i64]) -> Commits {
    let mut commits = Vec::new();
    for pause in pauses {
        commits.push((put(db, table, "v"), world.wall()));
        world.pass(*pause);
    }
    commits
}

/// Checks that each commit maps to its wall time and back, to a second.
fn check(db: &Db, commits: &Commits) {
    for (commit, wall) in commits {
        let known = db.wall_time_of(*commit).unwrap();
        let early = wall.0 - known.0;
        assert!((0..=SECOND + SECOND / 4).contains(&early), "{commit}: {early} µs early");
        let found = db.timestamp_at(WallTime(wall.0 + SECOND + SECOND / 4)).unwrap();
        assert!(
            found >= *commit,
            "{commit} at {wall}: only {found} is seen after more than a second"
        );
        // The state at a wall time contains only commits up to that time.
        let seen = db.timestamp_at(*wall).unwrap();
        let later = commits.iter().find(|(other, at)| other <= &seen && at > wall);
        assert_eq!(later, None, "seen at {wall}");
    }
}

const PAUSES: [i64; 9] =
    [SECOND / 10, SECOND / 3, 10 * SECOND, 0, 0, SECOND, 3600 * SECOND, SECOND / 2, 2 * SECOND];

#[test]
fn commit_times_are_exact_to_a_second() {
    let world = World::default();
    world.pass(1_000 * SECOND);
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, Duration::from_secs(100_000));
    let commits = commit_some(&world, &db, &table, &PAUSES);
    check(&db, &commits);
    world.close(db, table);
    let in_memory = World::default();
    let db = in_memory.builder().in_memory();
    let table = db.raw("t").unwrap();
    let commits = commit_some(&in_memory, &db, &table, &PAUSES);
    check(&db, &commits);
}

#[test]
fn commit_times_survive_crash_and_restart() {
    let world = World::default();
    let mut disk = SimDisk::new(1);
    let mut commits = Commits::new();
    for life in 0..4 {
        let (db, table) = world.open(&disk, Duration::from_secs(1_000_000));
        commits.extend(commit_some(&world, &db, &table, &PAUSES));
        check(&db, &commits);
        if life % 2 == 1 {
            db.flush().unwrap();
        }
        if life % 2 == 0 {
            disk = world.kill(db, table, &disk);
        } else {
            world.close(db, table);
        }
        world.pass(50 * SECOND);
    }
    let (db, table) = world.open(&disk, Duration::from_secs(1_000_000));
    check(&db, &commits);
    world.close(db, table);
}

#[test]
fn backup_includes_last_commit_before_pause() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups");
    let world = World::default();
    world.pass(1_000 * SECOND);
    let (db, table) = world.open(&SimDisk::new(1), Duration::from_secs(100_000));
    commit_some(&world, &db, &table, &PAUSES);
    let last = put(&db, &table, "last");
    let quiet = world.pass_seconds(1800);
    world.pass_seconds(1800);
    db.backup(&backups).unwrap();
    let which = Which { as_of: Some(AsOf::Wall(quiet)), ..Which::default() };
    let restored = backup::restore(&backups, dir.path().join("restored"), &which).unwrap();
    assert_eq!(restored.commit, last, "the commit existed half an hour later");
    world.close(db, table);
}

#[test]
fn wall_times_never_decrease() {
    let world = World::default();
    world.pass(3_600 * SECOND);
    let mut disk = SimDisk::new(1);
    let mut commits = Commits::new();
    for jump in [-1800 * SECOND, 100 * SECOND, -7200 * SECOND, 60 * SECOND, -SECOND] {
        let (db, table) = world.open(&disk, Duration::from_secs(1_000_000));
        commits.extend(commit_some(&world, &db, &table, &PAUSES));
        world.jump(jump);
        commits.extend(commit_some(&world, &db, &table, &PAUSES));
        let known: Vec<_> =
            commits.iter().map(|(commit, _)| db.wall_time_of(*commit).unwrap()).collect();
        assert!(known.is_sorted(), "{known:?}");
        world.pass(10 * SECOND);
        let last = commits.last().unwrap().0;
        let now = db.timestamp_at(WallTime(known.last().unwrap().0 + 2 * SECOND)).unwrap();
        assert!(now >= last, "time goes on");
        disk = world.kill(db, table, &disk);
        world.jump(jump);
    }
}

#[test]
fn refused_commit_leaves_its_point_to_next() {
    let world = World::default();
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, Duration::from_secs(1_000_000));
    put(&db, &table, "a");
    world.pass(5 * SECOND);
    let loser = db.begin().unwrap();
    table.get(&loser, "k").unwrap();
    table.put(&loser, "k", "loser").unwrap();
    // It writes the point of the pause, and the worker requests another one.
    put(&db, &table, "b");
    world.pass(5 * SECOND);
    assert_eq!(loser.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let commits = vec![(put(&db, &table, "c"), world.wall())];
    let disk = world.kill(db, table, &disk);
    world.pass(100 * SECOND);
    let (db, table) = world.open(&disk, Duration::from_secs(1_000_000));
    check(&db, &commits);
    world.close(db, table);
}

/// Across restarts, points within the retention are kept and older ones are dropped.
#[test]
fn retention_continues_across_restarts() {
    let world = World::default();
    let mut disk = SimDisk::new(1);
    let retention = Duration::from_secs(100);
    let mut commits = Commits::new();
    for _ in 0..20 {
        let (db, table) = world.open(&disk, retention);
        commits.extend(commit_some(&world, &db, &table, &[4 * SECOND, 5 * SECOND]));
        db.compact().unwrap();
        let now = world.wall();
        for (commit, wall) in &commits {
            let age = now.0 - wall.0;
            let snapshot = block_on(db.snapshot_at(*commit));
            match snapshot {
                Ok(_) => assert!(age <= 115 * SECOND, "{commit} is kept for {age} µs"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TooOld);
                    assert!(age > 100 * SECOND, "{commit} is gone after {age} µs");
                }
            }
        }
        disk = world.kill(db, table, &disk);
        world.pass(2 * SECOND);
    }
}

/// The state of a moment is readable for the retention; then the error names the oldest readable
/// wall time.
#[test]
fn past_state_is_readable_until_garbage_collected() {
    let world = World::default();
    world.pass(1_000 * SECOND);
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, Duration::from_secs(100));
    let mut commits = Commits::new();
    for value in 0..30 {
        commits.push((put(&db, &table, &value.to_string()), world.wall()));
        world.pass(10 * SECOND);
    }
    db.compact().unwrap();
    for (value, (commit, wall)) in (0..30).zip(&commits) {
        let by_wall = db.snapshot_as_of(WallTime(wall.0 + 2 * SECOND));
        let by_timestamp = db.snapshot_as_of(*commit);
        if value < 19 {
            for error in [by_wall.err().unwrap(), by_timestamp.err().unwrap()] {
                assert_eq!(error.kind(), ErrorKind::TooOld, "{error}");
                let said = error.to_string();
                assert!(said.contains("1970-01-01 00:19:"), "{said}");
            }
        } else if value > 20 {
            for snapshot in [by_wall.unwrap(), by_timestamp.unwrap()] {
                let found = table.get(&snapshot, "k").unwrap().unwrap();
                assert_eq!(found, value.to_string());
            }
        }
    }
    let ahead = db.published().checked_add(1).unwrap();
    assert_eq!(db.snapshot_as_of(ahead).err().unwrap().kind(), ErrorKind::Invalid);
    let writes = db.transaction().snapshot_as_of(db.published()).unwrap();
    let refused = block_on(table.put(writes.as_async(), "k", "v")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    world.close(db, table);
}

#[test]
fn unknown_wall_times_are_refused() {
    let world = World::default();
    world.pass(1_000 * SECOND);
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, Duration::from_secs(100));
    let commit = put(&db, &table, "v");
    let ahead = db.timestamp_at(WallTime(world.wall().0 + 1)).unwrap_err();
    assert_eq!(ahead.kind(), ErrorKind::Invalid);
    assert_eq!(
        db.timestamp_at(world.wall()).unwrap(),
        commit,
        "the present state is the visible one"
    );
    assert_eq!(db.timestamp_at(WallTime(0)).unwrap_err().kind(), ErrorKind::TooOld);
    let next = commit.checked_add(1).unwrap();
    assert_eq!(db.wall_time_of(next).unwrap_err().kind(), ErrorKind::Invalid);
    world.close(db, table);
}

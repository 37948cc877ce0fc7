//! A database with a manual clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet::{Builder, Db, RawTable, Timestamp, WallTime};
use carnet_base::{Clock, Moment, Signal, Spawn, Step, ThreadSpawn, Worker, WorkerHandle};
use carnet_storage::disk::sim::SimDisk;

pub(crate) const SECOND: i64 = 1_000_000;

/// A manual clock, and the wall-clock worker, which is stepped manually.
#[derive(Clone, Default)]
pub(crate) struct World {
    time: Arc<Mutex<(Duration, i64)>>,
    maintenance: Arc<Mutex<Option<Box<dyn Worker>>>>,
    /// The worker of the coarse clock of transactions.
    idle: Arc<Mutex<Option<Box<dyn Worker>>>>,
}

impl Clock for World {
    fn now(&self) -> Moment {
        Moment(self.time.lock().unwrap().0)
    }

    fn wall(&self) -> WallTime {
        WallTime(self.time.lock().unwrap().1)
    }
}

impl Spawn for World {
    fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        let place = match name {
            "carnet-maint" => &self.maintenance,
            "carnet-idle" => &self.idle,
            _ => return ThreadSpawn.spawn(name, signal, worker),
        };
        *place.lock().unwrap() = Some(worker);
        WorkerHandle::detached()
    }
}

impl World {
    pub(crate) fn builder(&self) -> Builder {
        Db::builder().clock(Arc::new(self.clone())).spawn(Arc::new(self.clone()))
    }

    pub(crate) fn open(&self, disk: &SimDisk, retention: Duration) -> (Db, RawTable) {
        let db = self.builder().retention(retention).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.raw("t").unwrap();
        (db, table)
    }

    /// Advances the clock, running the worker four times a second.
    pub(crate) fn pass(&self, micros: i64) {
        let mut left = micros;
        while left > 0 {
            let step = left.min(SECOND / 4);
            {
                let mut time = self.time.lock().unwrap();
                time.0 += Duration::from_micros(step.cast_unsigned());
                time.1 += step;
            }
            left -= step;
            self.keep();
            if let Some(idle) = self.idle.lock().unwrap().as_mut() {
                let _ = idle.step();
            }
        }
    }

    /// Runs one step of the worker; returns when it wants to run again.
    pub(crate) fn keep(&self) -> Option<Duration> {
        match self.maintenance.lock().unwrap().as_mut()?.step() {
            Step::Idle(again) => again,
            step => panic!("the maintenance says {step:?}"),
        }
    }

    pub(crate) fn pass_seconds(&self, seconds: i64) -> WallTime {
        self.pass(seconds * SECOND);
        self.wall()
    }

    pub(crate) fn jump(&self, micros: i64) {
        self.time.lock().unwrap().1 += micros;
    }

    pub(crate) fn close(&self, db: Db, table: RawTable) {
        *self.maintenance.lock().unwrap() = None;
        *self.idle.lock().unwrap() = None;
        drop((db, table));
    }

    pub(crate) fn kill(&self, db: Db, table: RawTable, disk: &SimDisk) -> SimDisk {
        let left = disk.kill();
        self.close(db, table);
        left
    }
}

pub(crate) fn put(db: &Db, table: &RawTable, value: &str) -> Timestamp {
    let tx = db.begin().unwrap();
    table.put(&tx, "k", value).unwrap();
    tx.commit().unwrap()
}

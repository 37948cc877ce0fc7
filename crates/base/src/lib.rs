//! The types that all Carnet crates share: ids and timestamps, cell keys and their order, codecs,
//! the interfaces to time, randomness and threads, and error kinds. No I/O.
//!
//! Read [`cell`] first: it defines the order in which every store keeps its cells.

pub mod address_limit;
mod byte_permits;
pub mod calendar;
mod call;
pub mod cell;
mod cell_builder;
mod cell_hash;
mod cells;
pub mod clock;
pub mod commit_encoding;
pub mod concurrent;
mod durations;
mod end_on_panic;
pub mod error;
pub mod ids;
pub mod label;
pub mod limits;
pub mod log_rate;
pub mod memory_budget;
pub mod murmur3;
pub mod park;
mod places;
pub mod read_level;
pub mod rng;
mod scratch;
pub mod spawn;
pub mod stripe;
pub mod sync;
pub mod task;
pub mod time_slice;
pub mod timer;
pub mod var_long;
mod virtual_timer;
pub mod wait_note;

#[cfg(test)]
mod testing;

pub use address_limit::{AddressLimit, AddressPlace, network};
pub use byte_permits::{BytePermit, BytePermits};
pub use bytes::{Bytes, BytesMut};
pub use call::Call;
pub use cell::{CellKey, CellKeyRef, KeyRange, PartitionKey, Version};
pub use cell_builder::{CellBuilder, CellKeyBuilder};
pub use cell_hash::CellHash;
pub use cells::{CellPage, CellRef, Cells, CellsBuilder, PageLimit};
pub use clock::{Clock, Moment, SystemClock, WallTime};
pub use commit_encoding::{CommitCell, CommitEntry, Encoding, EncodingMap};
pub use durations::{DURATION_BUCKETS, DurationCounts, Durations};
pub use end_on_panic::EndOnPanic;
pub use error::{Error, ErrorKind, Result};
pub use ids::{ColumnId, Epoch, TableId, Timestamp, Token};
pub use label::{LabelFields, LabelWriter};
pub use log_rate::LogRate;
pub use memory_budget::{Charge, MemoryBudget};
#[cfg(not(shuttle))]
pub use park::block_on;
pub use park::{block_on_one, for_many, waits_for_one};
pub use places::Places;
pub use read_level::{ReadLevel, read_level, with_read_level};
pub use rng::{Rng, SeededRng};
#[cfg(shuttle)]
pub use shuttle::future::block_on;
pub use spawn::{Signal, Spawn, Step, Stepped, ThreadSpawn, Worker, WorkerHandle};
pub use stripe::stripe;
pub use sync::lock;
pub use task::{Task, Tasks, WorkerTasks};
pub use time_slice::{TIME_SLICE, TimeSlice, YieldNow};
pub use timer::{ThreadTimer, Timer, Wait, before};
pub use uuid::Uuid;
pub use virtual_timer::VirtualTimer;
pub use wait_note::{WaitNote, note_wait, take_wait_note};

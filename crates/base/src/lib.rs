//! The types that all Carnet crates share: ids and timestamps, cell keys and their order, codecs,
//! the interfaces to time, randomness and threads, and error kinds. No I/O.
//!
//! Read [`cell`] first: it defines the order in which every store keeps its cells.

pub mod address_limit;
mod byte_permits;
mod call;
pub mod cell;
mod cell_builder;
mod cell_hash;
mod cells;
pub mod clock;
pub mod commit_encoding;
mod composite;
pub mod concurrent;
mod duration;
mod end_on_panic;
pub mod error;
pub mod ids;
pub mod key;
mod key_form;
pub mod keyword;
pub mod label;
pub mod limits;
pub mod log_rate;
pub mod memory_budget;
pub mod murmur3;
pub mod park;
pub mod partition;
mod places;
pub mod read_level;
pub mod rng;
pub mod row;
mod scratch;
pub mod serial;
pub mod spawn;
pub mod stripe;
pub mod sync;
pub mod task;
pub mod text;
pub mod time_slice;
pub mod timer;
mod type_name;
pub mod value;
mod value_order;
pub mod var_long;
pub mod vector;
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
pub use duration::CqlDuration;
pub use end_on_panic::EndOnPanic;
pub use error::{Error, ErrorKind, Result};
pub use ids::{ColumnId, Epoch, TableId, Timestamp, Token};
pub use key::Order;
pub use label::{LabelFields, LabelWriter};
pub use log_rate::LogRate;
pub use memory_budget::{Charge, MemoryBudget};
pub use num_bigint::BigInt;
#[cfg(not(shuttle))]
pub use park::block_on;
pub use park::{block_on_one, for_many, waits_for_one};
pub use places::Places;
pub use read_level::{ReadLevel, read_level, with_read_level};
pub use rng::{Rng, SeededRng};
pub use row::{Change, Column, Marker, RowColumns, RowDelta, RowImage, RowReader, RowWriter};
#[cfg(shuttle)]
pub use shuttle::future::block_on;
pub use spawn::{Signal, Spawn, Step, Stepped, ThreadSpawn, Worker, WorkerHandle};
pub use stripe::stripe;
pub use sync::lock;
pub use task::{Task, Tasks, WorkerTasks};
pub use time_slice::{TIME_SLICE, TimeSlice, YieldNow};
pub use timer::{ThreadTimer, Timer, Wait, before};
pub use uuid::Uuid;
pub use value::{Composite, DataType, FieldKeys, TYPE_DEPTH_MAX, TypeReference, UserType, Value};
pub use virtual_timer::VirtualTimer;
pub use wait_note::{WaitNote, note_wait, take_wait_note};

//! The syntax tree of a statement, before its names are resolved.
//!
//! Names are folded to lower case unless they were quoted. Positions point into the text and do not
//! take part in comparisons. `Display` of every node writes CQL that parses to an equal node.

mod ddl;
mod describe;
mod index;
mod level;
mod markers;
mod name;
mod open;
mod relation;
mod role;
mod select;
mod statement;
mod term;
mod transaction;
mod types;
mod view;
mod write;

pub use ddl::{
    AlterKeyspace, AlterTable, AlterType, ColumnDefinition, CopyTable, CreateKeyspace, CreateTable,
    CreateType, DropKeyspace, DropTable, DropType, OptionValue, Options, PrimaryKey, TableChange,
    TypeChange,
};
pub use describe::{Describe, DescribeTarget};
pub use index::{CreateIndex, DropIndex, IndexTarget, TargetPart};
pub use level::{LevelOptions, LevelStatement};
pub use markers::{BindRole, BindSite};
pub use name::{Name, TableName};
pub use open::{IsolationLevel, OpenStatement, StartTransaction};
pub use relation::{CompareOp, InValues, Relation};
pub use role::{Password, ResourceName, RoleOptions, RoleStatement, Secret};
pub use select::{Near, Ordering, Select, SelectItem, Selection};
pub use statement::{Batch, BatchKind, Statement, Unsupported};
pub use term::{
    Arguments, ArithmeticOp, BindMarker, FunctionCall, FunctionName, Literal, Reference, Slice,
    Term, TermPart,
};
pub use transaction::{Body, Branch, Condition, Extension, Let, Transaction, TransactionResult};
pub use types::TypeName;
pub use view::{AlterView, CreateView, DropView};
pub use write::{
    Assignment, Attribute, Delete, Deletion, Guard, Insert, JsonRow, Update, Using, Write,
};

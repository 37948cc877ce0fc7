//! Nodes and their encoding.

use carnet_base::{Bytes, Error, Result};

use crate::codec::{FieldReader, VERSION, bytes_len, put_bytes, put_id, put_number, seal};
use crate::id::NodeId;

/// Maximum number of children of an inner node: one for each value of 5 hash bits.
pub(crate) const FAN: u8 = 32;

/// An immutable node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Children by the next 5 bits of the hash; at least one, ascending.
    Inner(Vec<(u8, Pointer)>),
    /// Entries; at least one, ascending by key.
    Leaf(Vec<Entry>),
    /// A value that is too long to be stored with its key.
    Value(Bytes),
    /// Writes that are newer than the tree; at least one, ascending by key.
    Run(Vec<Write>),
}

/// Reference to a child with its kind, so that a parent can be rebuilt without reading the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Id of the child.
    pub id: NodeId,
    /// `true` for a leaf, `false` for an inner node.
    pub is_leaf: bool,
}

/// A key and its value or reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key of the entry.
    pub key: Bytes,
    /// Value of the key, or a reference to it.
    pub stored: Stored,
}

/// A write that is newer than the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Key of the write.
    pub key: Bytes,
    /// New value; `None` for a deletion.
    pub stored: Option<Stored>,
}

/// A value or a reference to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value itself.
    Inline(Bytes),
    /// Id of the node with the value.
    Node(NodeId),
}

impl Stored {
    pub(crate) const INLINE: u8 = 0;
    pub(crate) const NODE: u8 = 1;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Inline(value) => {
                out.push(Self::INLINE);
                put_bytes(out, value);
            }
            Self::Node(id) => {
                out.push(Self::NODE);
                put_id(out, *id);
            }
        }
    }

    pub(crate) fn decode(tag: u8, reader: &mut FieldReader) -> Result<Self> {
        match tag {
            Self::INLINE => Ok(Self::Inline(reader.bytes()?)),
            Self::NODE => Ok(Self::Node(reader.id()?)),
            other => Err(Error::corrupted(format!("unknown kind of value: {other}"))),
        }
    }

    /// Returns the node that contains the value; `None` if it is stored inline.
    #[must_use]
    pub const fn node(&self) -> Option<NodeId> {
        match self {
            Self::Inline(_) => None,
            Self::Node(id) => Some(*id),
        }
    }

    pub(crate) fn encoded_len(&self) -> usize {
        1 + match self {
            Self::Inline(value) => bytes_len(value),
            Self::Node(_) => 16,
        }
    }
}

impl Write {
    pub(crate) const DELETED: u8 = 2;

    /// Returns the node that contains the value, if there is one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.stored.as_ref().and_then(Stored::node)
    }

    pub(crate) fn encoded_len(&self) -> usize {
        bytes_len(&self.key) + self.stored.as_ref().map_or(1, Stored::encoded_len)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        match &self.stored {
            None => out.push(Self::DELETED),
            Some(stored) => stored.encode(out),
        }
    }

    pub(crate) fn decode(reader: &mut FieldReader) -> Result<Self> {
        let key = reader.bytes()?;
        let stored = match reader.byte()? {
            Self::DELETED => None,
            tag => Some(Stored::decode(tag, reader)?),
        };
        Ok(Self { key, stored })
    }
}

impl Entry {
    pub(crate) fn encoded_len(&self) -> usize {
        bytes_len(&self.key) + self.stored.encoded_len()
    }
}

impl Pointer {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_leaf));
        put_id(out, self.id);
    }

    pub(crate) fn decode(reader: &mut FieldReader) -> Result<Self> {
        let is_leaf = match reader.byte()? {
            0 => false,
            1 => true,
            other => return Err(Error::corrupted(format!("unknown kind of child: {other}"))),
        };
        Ok(Self { id: reader.id()?, is_leaf })
    }
}

impl Node {
    const INNER: u8 = 1;
    const LEAF: u8 = 2;
    const VALUE: u8 = 3;
    const RUN: u8 = 4;

    /// Encodes the node, with a checksum over its id.
    #[must_use]
    pub fn encode(&self, id: NodeId) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Self::Inner(children) => {
                out.push(Self::INNER);
                put_number(&mut out, children.len() as u64);
                for (slot, child) in children {
                    out.push(*slot);
                    child.encode(&mut out);
                }
            }
            Self::Leaf(entries) => {
                out.push(Self::LEAF);
                put_number(&mut out, entries.len() as u64);
                for entry in entries {
                    put_bytes(&mut out, &entry.key);
                    entry.stored.encode(&mut out);
                }
            }
            Self::Value(value) => {
                out.push(Self::VALUE);
                put_bytes(&mut out, value);
            }
            Self::Run(writes) => {
                out.push(Self::RUN);
                put_number(&mut out, writes.len() as u64);
                for write in writes {
                    write.encode(&mut out);
                }
            }
        }
        seal(out, &id.to_bytes())
    }

    /// Decodes the bytes of a node. Keys and values share the input's memory.
    ///
    /// # Errors
    ///
    /// `Corrupted` if [`Node::encode`] did not write these bytes for this id.
    pub fn decode(id: NodeId, bytes: &Bytes) -> Result<Self> {
        Self::parse(id, bytes)
            .map_err(|error| Error::corrupted(format!("node {id} is damaged")).with_source(error))
    }

    fn parse(id: NodeId, bytes: &Bytes) -> Result<Self> {
        let mut reader = FieldReader::open(bytes, &id.to_bytes())?;
        let node = match reader.byte()? {
            Self::INNER => Self::Inner(decode_children(&mut reader)?),
            Self::LEAF => Self::Leaf(decode_entries(&mut reader)?),
            Self::VALUE => Self::Value(reader.bytes()?),
            Self::RUN => Self::Run(decode_writes(&mut reader)?),
            other => return Err(Error::corrupted(format!("unknown kind of node: {other}"))),
        };
        reader.end()?;
        Ok(node)
    }

    /// Returns the nodes that this node refers to.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Inner(children) => children.iter().map(|(_, child)| child.id).collect(),
            Self::Leaf(entries) => entries.iter().filter_map(|entry| entry.stored.node()).collect(),
            Self::Run(writes) => writes.iter().filter_map(Write::node).collect(),
            Self::Value(_) => Vec::new(),
        }
    }

    /// Returns the approximate memory of the node, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Inner(children) => size_of_val(children.as_slice()),
                Self::Leaf(entries) => entries
                    .iter()
                    .map(|entry| size_of::<Entry>() + entry.encoded_len())
                    .sum::<usize>(),
                Self::Value(value) => value.len(),
                Self::Run(writes) => writes
                    .iter()
                    .map(|write| size_of::<Write>() + write.encoded_len())
                    .sum::<usize>(),
            }
    }
}

fn decode_children(reader: &mut FieldReader) -> Result<Vec<(u8, Pointer)>> {
    let count = reader.count()?;
    if count == 0 || count > usize::from(FAN) {
        return Err(Error::corrupted(format!("an inner node has {count} children")));
    }
    let mut children: Vec<(u8, Pointer)> = Vec::with_capacity(count);
    for _ in 0..count {
        let slot = reader.byte()?;
        if slot >= FAN || children.last().is_some_and(|(before, _)| *before >= slot) {
            return Err(Error::corrupted("the children of an inner node are out of order"));
        }
        children.push((slot, Pointer::decode(reader)?));
    }
    Ok(children)
}

fn decode_entries(reader: &mut FieldReader) -> Result<Vec<Entry>> {
    let count = reader.count()?;
    if count == 0 {
        return Err(Error::corrupted("a leaf has no entries"));
    }
    // Not preallocated: with `count`, damaged input could allocate dozens of times its length.
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..count {
        let key = reader.bytes()?;
        if entries.last().is_some_and(|before| before.key >= key) {
            return Err(Error::corrupted("the keys of a leaf are out of order"));
        }
        let tag = reader.byte()?;
        entries.push(Entry { key, stored: Stored::decode(tag, reader)? });
    }
    Ok(entries)
}

fn decode_writes(reader: &mut FieldReader) -> Result<Vec<Write>> {
    let count = reader.count()?;
    if count == 0 {
        return Err(Error::corrupted("a run has no writes"));
    }
    let mut writes: Vec<Write> = Vec::new();
    for _ in 0..count {
        let write = Write::decode(reader)?;
        if writes.last().is_some_and(|before| before.key >= write.key) {
            return Err(Error::corrupted("the keys of a run are out of order"));
        }
        writes.push(write);
    }
    Ok(writes)
}

//! A value's bytes, as Cassandra serializes it.

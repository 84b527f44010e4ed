//! The rules of a session, without I/O.

pub mod eviction;

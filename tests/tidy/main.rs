//! Layout rules as tests: what a file looks like, which imports are allowed, and which documents
//! must match the code.
//!
//! Each rule is a function from files to complaints, and a test shows that it fails on a bad
//! example. A complaint says where the problem is and what to do. The rules use std alone and do
//! not ask git.

mod async_code;
mod bans;
mod blocking;
mod documents;
mod imports;
mod links;
mod manifests;
mod names;
mod pointers;
mod shape;
mod single_places;
mod sizes;
mod sleepers;
mod source;
mod wildcards;

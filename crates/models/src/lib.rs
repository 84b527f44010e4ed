//! Language models behind `domain::model::Model`, one file each, and the shelf that sessions choose from.
//!
//! Knows nothing of ACP, of actix, or of how tools are carried out: a model hears a request and streams an answer.

mod rehearsal;
mod script;
mod shelf;

pub use rehearsal::Rehearsal;
pub use script::{Script, Step};
pub use shelf::Shelf;
